// SPDX-License-Identifier: Apache-2.0
// The extension module torch_neuronx._C: what torch_neuronx/ needs of the C++ side.
#include <Python.h>
#include <torch/csrc/Generator.h>

#include <string>

#include "python/torch_neuronx/csrc/aten/backend.h"
#include "python/torch_neuronx/csrc/aten/dispatch.h"
#include "python/torch_neuronx/csrc/aten/tracking.h"
#include "python/torch_neuronx/csrc/checks.h"
#include "python/torch_neuronx/csrc/device.h"
#include "python/torch_neuronx/csrc/memory.h"
#include "python/torch_neuronx/csrc/program.h"
#include "python/torch_neuronx/csrc/queue.h"

namespace {

// Every exception of the core becomes a Python one.
template <class Body>
PyObject* guarded(Body&& body) {
  try {
    return body();
  } catch (const tnx::OutOfMemory& error) {
    PyErr_SetString(PyExc_MemoryError, error.what());
  } catch (const tnx::CheckFailed& error) {
    PyErr_SetString(error.is_index() ? PyExc_IndexError : PyExc_RuntimeError, error.what());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// Other threads of the program go on while this one waits.
template <class Body>
void without_gil(Body&& body) {
  PyThreadState* const state = PyEval_SaveThread();
  try {
    body();
  } catch (...) {
    PyEval_RestoreThread(state);
    throw;
  }
  PyEval_RestoreThread(state);
}

PyObject* none() { Py_RETURN_NONE; }

int int_of(PyObject* value) {
  const long number = PyLong_AsLong(value);
  if (number == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw tnx::Error("a whole number was expected");
  }
  return static_cast<int>(number);
}

PyObject* setup(PyObject*, PyObject* folder) {
  return guarded([&]() -> PyObject* {
    const char* text = PyUnicode_AsUTF8(folder);
    if (text == nullptr) {
      return nullptr;
    }
    tnx::set_package_folder(text);
    tnx::register_hooks();
    tnx::register_kernels();
    return none();
  });
}

PyObject* device_count(PyObject*, PyObject*) { return PyLong_FromLong(tnx::device_count()); }

PyObject* why_no_device(PyObject*, PyObject*) {
  return guarded([] { return PyUnicode_FromString(tnx::why_no_device().c_str()); });
}

PyObject* initialize(PyObject*, PyObject*) {
  return guarded([] {
    tnx::initialize();
    return none();
  });
}

PyObject* shut_down(PyObject*, PyObject*) {
  without_gil([] { tnx::shut_down(); });
  return none();
}

PyObject* is_initialized(PyObject*, PyObject*) { return PyBool_FromLong(tnx::initialized()); }
PyObject* in_bad_fork(PyObject*, PyObject*) { return PyBool_FromLong(tnx::in_bad_fork()); }
PyObject* current_device(PyObject*, PyObject*) { return PyLong_FromLong(tnx::current_device()); }

PyObject* exchange_device(PyObject*, PyObject* device) {
  return guarded([&] { return PyLong_FromLong(tnx::exchange_device(int_of(device))); });
}

PyObject* synchronize(PyObject*, PyObject* device) {
  return guarded([&] {
    const int index = int_of(device);
    without_gil([&] { tnx::synchronize(index); });
    return none();
  });
}

PyObject* empty_cache(PyObject*, PyObject* device) {
  return guarded([&] {
    const int index = int_of(device);
    without_gil([&] { tnx::empty_cache(index); });
    return none();
  });
}

PyObject* reset_peak(PyObject*, PyObject* device) {
  return guarded([&] {
    tnx::reset_peak_stats(int_of(device));
    return none();
  });
}

PyObject* reset_accumulated(PyObject*, PyObject* device) {
  return guarded([&] {
    tnx::reset_accumulated_stats(int_of(device));
    return none();
  });
}

PyObject* default_generator(PyObject*, PyObject* device) {
  return guarded([&] { return THPGenerator_Wrap(tnx::default_generator(int_of(device))); });
}

PyObject* total_memory(PyObject*, PyObject* device) {
  return guarded([&] { return PyLong_FromSize_t(tnx::total_memory(int_of(device))); });
}

PyObject* instance_family(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromUnsignedLong(tnx::instance_family()); });
}

PyObject* compile_target(PyObject*, PyObject*) {
  return guarded([] { return PyUnicode_FromString(tnx::compile_target()); });
}

void put(PyObject* dict, const std::string& name, PyObject* value) {
  PyDict_SetItemString(dict, name.c_str(), value);
  Py_DECREF(value);
}

void put(PyObject* dict, const std::string& name, const tnx::MemoryStats::Counter& counter) {
  put(dict, name + ".current", PyLong_FromLongLong(counter.current));
  put(dict, name + ".peak", PyLong_FromLongLong(counter.peak));
  put(dict, name + ".allocated", PyLong_FromLongLong(counter.allocated));
  put(dict, name + ".freed", PyLong_FromLongLong(counter.freed));
}

PyObject* memory_stats(PyObject*, PyObject* device) {
  return guarded([&] {
    const tnx::MemoryStats stats = tnx::memory_stats(int_of(device));
    PyObject* dict = PyDict_New();
    put(dict, "allocated_bytes.all", stats.allocated_bytes);
    put(dict, "active_bytes.all", stats.allocated_bytes);
    put(dict, "requested_bytes.all", stats.requested_bytes);
    put(dict, "reserved_bytes.all", stats.reserved_bytes);
    put(dict, "allocation.all", stats.allocations);
    put(dict, "segment.all", stats.segments);
    put(dict, "num_alloc_retries", PyLong_FromLongLong(stats.retries));
    put(dict, "num_ooms", PyLong_FromLongLong(stats.out_of_memory));
    return dict;
  });
}

PyObject* op_counts(PyObject*, PyObject*) {
  return guarded([] {
    PyObject* list = PyList_New(0);
    for (const tnx::OpCount& count : tnx::op_counts()) {
      PyObject* row = PyDict_New();
      put(row, "name", PyUnicode_FromString(count.name.c_str()));
      put(row, "native", PyLong_FromUnsignedLongLong(count.native));
      put(row, "fallback", PyLong_FromUnsignedLongLong(count.fallback));
      put(row, "fallback_bytes", PyLong_FromUnsignedLongLong(count.fallback_bytes));
      put(row, "fallback_seconds", PyFloat_FromDouble(count.fallback_seconds));
      put(row, "source", PyUnicode_FromString(count.source.c_str()));
      put(row, "reason", PyUnicode_FromString(count.reason.c_str()));
      PyList_Append(list, row);
      Py_DECREF(row);
    }
    return list;
  });
}

PyObject* clear_op_counts(PyObject*, PyObject*) {
  tnx::clear_op_counts();
  return none();
}

PyObject* set_fallback_mode(PyObject*, PyObject* mode) {
  return guarded([&] {
    tnx::set_fallback_mode(static_cast<tnx::FallbackMode>(int_of(mode)));
    return none();
  });
}

PyObject* set_source_hook(PyObject*, PyObject* hook) {
  Py_INCREF(hook);  // for the life of the process
  tnx::set_source_hook([hook] {
    std::string text;
    const PyGILState_STATE state = PyGILState_Ensure();
    PyObject* result = PyObject_CallNoArgs(hook);
    const char* found = result != nullptr ? PyUnicode_AsUTF8(result) : nullptr;
    if (found != nullptr) {
      text = found;
    } else {
      PyErr_Clear();  // a report without a line is better than none
    }
    Py_XDECREF(result);
    PyGILState_Release(state);
    return text;
  });
  return none();
}

PyObject* counters(PyObject*, PyObject*) {
  without_gil([] { tnx::drain_all(); });
  const tnx::Counters c = tnx::counters();
  PyObject* dict = PyDict_New();
  put(dict, "launches", PyLong_FromUnsignedLongLong(c.launches));
  put(dict, "programs", PyLong_FromUnsignedLongLong(c.programs));
  put(dict, "compiled", PyLong_FromUnsignedLongLong(c.compiled));
  return dict;
}

PyObject* library_paths(PyObject*, PyObject*) {
  return guarded([] {
    PyObject* dict = PyDict_New();
    put(dict, "libnrt", PyUnicode_FromString(tnx::runtime().path.c_str()));
    put(dict, "libnrtcc", PyUnicode_FromString(tnx::compiler().path.c_str()));
    return dict;
  });
}

PyMethodDef methods[] = {
    {"setup", setup, METH_O, "Registers kernels; the package's folder."},
    {"device_count", device_count, METH_NOARGS, nullptr},
    {"why_no_device", why_no_device, METH_NOARGS, nullptr},
    {"initialize", initialize, METH_NOARGS, nullptr},
    {"shut_down", shut_down, METH_NOARGS, nullptr},
    {"is_initialized", is_initialized, METH_NOARGS, nullptr},
    {"in_bad_fork", in_bad_fork, METH_NOARGS, nullptr},
    {"current_device", current_device, METH_NOARGS, nullptr},
    {"exchange_device", exchange_device, METH_O, nullptr},
    {"synchronize", synchronize, METH_O, nullptr},
    {"default_generator", default_generator, METH_O, nullptr},
    {"total_memory", total_memory, METH_O, nullptr},
    {"instance_family", instance_family, METH_NOARGS, nullptr},
    {"compile_target", compile_target, METH_NOARGS, nullptr},
    {"empty_cache", empty_cache, METH_O, nullptr},
    {"memory_stats", memory_stats, METH_O, nullptr},
    {"reset_peak_memory_stats", reset_peak, METH_O, nullptr},
    {"reset_accumulated_memory_stats", reset_accumulated, METH_O, nullptr},
    {"op_counts", op_counts, METH_NOARGS, nullptr},
    {"clear_op_counts", clear_op_counts, METH_NOARGS, nullptr},
    {"set_fallback_mode", set_fallback_mode, METH_O, "0 warn, 1 silent, 2 error"},
    {"set_source_hook", set_source_hook, METH_O, "A function that gives \"file:line\"."},
    {"counters", counters, METH_NOARGS, nullptr},
    {"library_paths", library_paths, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "torch_neuronx._C",
                      nullptr,
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__C() { return PyModule_Create(&module); }
