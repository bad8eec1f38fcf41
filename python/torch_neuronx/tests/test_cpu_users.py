# SPDX-License-Identifier: Apache-2.0
"""Installed on a machine without a device, and no emulation asked for: programs that stay on the
CPU run as they did, and using the device says in one sentence what to do."""

import importlib.util
from collections.abc import Callable

import pytest

_NOTHING = {"OPENNRT_EMULATE": None, "OPENNRT_MACHINE_DIR": None}

_SCRIPTS = {
    "pinned_loader": """
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(6.0))
for workers in (0, 1):
    batches = [x for (x,) in DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers)]
    assert [b.tolist() for b in batches] == [[0, 1], [2, 3], [4, 5]]
    assert batches[0].device.type == "cpu"
""",
    "autocast": """
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = torch.nn.Linear(4, 2)(torch.ones(1, 4))
assert y.dtype == torch.bfloat16
scaler = torch.amp.GradScaler("cpu")
w = torch.ones(2, requires_grad=True)
scaler.scale(w.sum()).backward()
scaler.step(torch.optim.SGD([w], 0.1))
""",
    "training": """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
step = torch.optim.AdamW(model.parameters(), 1e-2)
x = torch.randn(32, 4)
first = last = None
for _ in range(30):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    step.zero_grad(); loss.backward(); step.step()
    first = first or loss.item(); last = loss.item()
assert last < first / 2
""",
    "pickling": """
import copy, io, pickle
model = torch.nn.Linear(3, 2)
again = pickle.loads(pickle.dumps(model))
assert torch.equal(again.weight, model.weight)
file = io.BytesIO(); torch.save(model.state_dict(), file); file.seek(0)
assert torch.equal(torch.load(file)["weight"], model.weight)
copy.deepcopy(model)
""",
    "fork": """
import torch.multiprocessing as mp
def work(queue): queue.put((torch.ones(3) @ torch.ones(3)).item())
context = mp.get_context("fork"); queue = context.SimpleQueue()
child = context.Process(target=work, args=(queue,)); child.start()
assert queue.get() == 3; child.join(); assert child.exitcode == 0
""",
    "shared_memory": """
x = torch.zeros(3).share_memory_()
assert x.is_shared()
""",
    "accelerator": """
assert torch.accelerator.current_accelerator(check_available=True) is None
assert not torch.accelerator.is_available()
assert not torch.neuron.is_available() and torch.neuron.device_count() == 0
""",
    "default_device": """
assert torch.ones(2).device.type == "cpu" and torch.get_default_device().type == "cpu"
with torch.random.fork_rng(): torch.manual_seed(3); a = torch.rand(3)
torch.manual_seed(3); assert torch.equal(torch.rand(3), a)
""",
    "checkpoint": """
from torch.utils.checkpoint import checkpoint
x = torch.ones(3, requires_grad=True)
checkpoint(torch.sin, x, use_reentrant=False).sum().backward()
checkpoint(torch.sin, x, use_reentrant=True).sum().backward()
""",
    "compile": """
f = torch.compile(lambda x: (x * 2 + 1).relu(), backend="eager")
assert f(torch.ones(2)).tolist() == [3, 3]
f = torch.compile(lambda x: (x * 2 + 1).relu(), backend="aot_eager")
x = torch.ones(2, requires_grad=True); f(x).sum().backward(); assert x.grad.tolist() == [2, 2]
""",
}


@pytest.mark.parametrize("name", _SCRIPTS)
def test_a_program_on_the_cpu_is_not_changed(name: str, run_python: Callable) -> None:
    done = run_python("import torch\n" + _SCRIPTS[name], **_NOTHING)
    assert done.returncode == 0, done.stderr
    assert "neuron" not in done.stderr.lower()


def test_spawned_processes_on_the_cpu(run_python: Callable) -> None:
    # The child of `spawn` needs a module to import its function from.
    script = """
import torch, torch.multiprocessing as mp, operator
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        assert pool.apply(torch.add, (torch.ones(2), 1)).tolist() == [2, 2]
"""
    done = run_python(script, **_NOTHING)
    assert done.returncode == 0, done.stderr


def test_transformers_trainer_on_the_cpu(run_python: Callable) -> None:
    pytest.importorskip("transformers")
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("Trainer needs accelerate")
    script = """
import torch, tempfile
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
config = LlamaConfig(vocab_size=16, hidden_size=8, intermediate_size=16, num_hidden_layers=1,
                     num_attention_heads=2, num_key_value_heads=2)
data = [{"input_ids": torch.arange(4), "labels": torch.arange(4)} for _ in range(4)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, max_steps=2, report_to=[], disable_tqdm=True)
    assert arguments.device.type == "cpu"
    Trainer(LlamaForCausalLM(config), arguments, train_dataset=data).train()
"""
    done = run_python(script, **_NOTHING)
    assert done.returncode == 0, done.stderr


def test_accelerate_on_the_cpu(run_python: Callable) -> None:
    if importlib.util.find_spec("accelerate") is None:
        pytest.skip("accelerate is not installed")
    script = """
import torch
from accelerate import Accelerator
accelerator = Accelerator()
assert accelerator.device.type == "cpu"
model, step = accelerator.prepare(torch.nn.Linear(2, 1), None)
accelerator.backward(model(torch.ones(1, 2)).sum())
"""
    done = run_python(script, **_NOTHING)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "use",
    [
        'torch.ones(2, device="neuron")',
        'torch.ones(2).to("neuron")',
        'torch.nn.Linear(2, 2).to("neuron")',
        'torch.Generator("neuron").manual_seed(1); torch.rand(2, device="neuron")',
    ],
)
def test_using_the_device_says_what_to_do(use: str, run_python: Callable) -> None:
    script = f"""
import torch
try:
    {use}
except Exception as error:
    print(str(error).splitlines()[0])
"""
    done = run_python(script, **_NOTHING)
    assert "set OPENNRT_EMULATE=trn2.3xlarge" in done.stdout, done.stdout + done.stderr
    assert len(done.stdout.strip().splitlines()) == 1
