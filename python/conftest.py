# SPDX-License-Identifier: Apache-2.0
"""Its place alone matters: pytest puts this folder on the path, so that tests import from here."""
