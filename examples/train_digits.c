/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains a digits classifier on a NeuronCore through the public C interface of libnrt.
 *   train_digits TRAIN.neff PREDICT.neff DIGITS.csv.gz CURVE.csv OUT.csv
 * CURVE.csv is the loss of each step as JAX recorded it for the same modules (digits/generate.py).
 * Fails when the two curves differ or when less than 95 % of the test digits are recognised.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <zlib.h>

#include "nrt/nrt.h"
#include "nrt/nrt_experimental.h"
#include "opennrt/opennrt.h"

enum { kPixels = 64, kClasses = 10, kMostRows = 4096, kParameters = 4, kState = 8 };
static const double kTolerance = 1e-5; /* of the highest loss */
static const double kAccuracy = 0.95;

typedef struct {
  nrt_model_t* model;
  nrt_tensor_info_array_t* info;
  nrt_tensor_set_t *inputs, *outputs;
} Program;

static struct {
  float pixels[kMostRows][kPixels];
  int32_t digits[kMostRows];
  int rows;
} training, test;

static void check(const char* what, NRT_STATUS status) {
  const char* (*text)(void) = (const char* (*)(void))dlsym(RTLD_DEFAULT, "onrt_last_error");
  if (status != NRT_SUCCESS) {
    fprintf(stderr, "train_digits: %s: status %d %s %s\n", what, status,
            nrt_get_status_as_str(status), text != NULL ? text() : "");
    nrt_close();
    exit(1);
  }
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Lines of 64 pixels and a digit; every fifth is for the test. gzopen() reads plain files too. */
static void read_digits(const char* path) {
  gzFile file = gzopen(path, "rb");
  char line[1024];
  for (int i = 0; file != NULL && i < kMostRows && gzgets(file, line, sizeof line); ++i) {
    int row = i % 5 == 4 ? test.rows++ : training.rows++;
    float* pixels = i % 5 == 4 ? test.pixels[row] : training.pixels[row];
    char* next = line;
    for (int j = 0; j < kPixels; ++j, ++next) {
      pixels[j] = (float)strtol(next, &next, 10);
    }
    *(i % 5 == 4 ? &test.digits[row] : &training.digits[row]) = (int32_t)strtol(next, NULL, 10);
  }
  check(path, file != NULL && gzclose(file) == Z_OK && test.rows > 0 ? NRT_SUCCESS : NRT_INVALID);
}

static Program load(const char* path) {
  static char bytes[16 << 20];
  Program program;
  FILE* file = fopen(path, "rb");
  size_t size = file != NULL ? fread(bytes, 1, sizeof bytes, file) : 0;
  check(path, file != NULL && fclose(file) == 0 ? NRT_SUCCESS : NRT_INVALID);
  check(path, nrt_load(bytes, size, 0, 1, &program.model));
  check(path, nrt_get_model_tensor_info(program.model, &program.info));
  check(path, nrt_allocate_tensor_set(&program.inputs));
  check(path, nrt_allocate_tensor_set(&program.outputs));
  return program;
}

/* Puts `tensor`, or if it is NULL a new one in device memory, at place `number` of the program's
 * tensor table: inputs in the order of the parameters, then outputs. */
static nrt_tensor_t* bind(Program* program, uint64_t number, nrt_tensor_t* tensor) {
  check("tensor table", number < program->info->tensor_count ? NRT_SUCCESS : NRT_INVALID);
  const nrt_tensor_info_t* info = &program->info->tensor_array[number];
  nrt_tensor_set_t* set =
      info->usage == NRT_TENSOR_USAGE_INPUT ? program->inputs : program->outputs;
  if (tensor == NULL) {
    check(info->name,
          nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, info->size, info->name, &tensor));
  }
  check(info->name, nrt_add_tensor_to_tensor_set(set, info->name, tensor));
  return tensor;
}

/* The numbers of uniform() in generate.py: weights within +-sqrt(6 / inputs), all else zero. */
static void initialise(const nrt_tensor_info_t* info, nrt_tensor_t* tensor, uint32_t* state) {
  float* values = calloc(1, info->size);
  float limit = sqrtf(6.0f / (float)info->shape[0]);
  for (size_t i = 0; state != NULL && info->ndim == 2 && i < info->size / sizeof *values; ++i) {
    *state = *state * 1664525u + 1013904223u;
    values[i] = ((float)(*state >> 8) * 0x1p-23f - 1.0f) * limit;
  }
  check("initial values", nrt_tensor_write(tensor, values, 0, info->size));
  free(values);
}

/* One step for each line of the recorded curve; returns the share of kTolerance that was used. */
static double train(Program* program, nrt_tensor_t** tensors, FILE* curve, FILE* out) {
  nrt_tensor_t *pixels = tensors[kState], *digits = tensors[kState + 1];
  int batch = (int)(nrt_tensor_get_size(digits) / sizeof(int32_t)), step = 0;
  double jax, largest = 0, highest = 0;
  float loss;
  fprintf(out, "step,loss,jax\n");
  for (int row = 0; fscanf(curve, "%d,%lf", &step, &jax) == 2;) {
    for (int done = 0, n; done < batch; done += n, row = (row + n) % training.rows) {
      n = training.rows - row < batch - done ? training.rows - row : batch - done;
      size_t at = 4 * (size_t)done, size = 4 * (size_t)n;
      check("pixels", nrt_tensor_write(pixels, training.pixels[row], kPixels * at, kPixels * size));
      check("digits", nrt_tensor_write(digits, &training.digits[row], at, size));
    }
    check("training step", nrt_execute(program->model, program->inputs, program->outputs));
    check("loss", nrt_tensor_read(tensors[kState + 2], &loss, 0, sizeof loss));
    double difference = fabs(loss - jax);
    largest = difference <= largest ? largest : difference; /* not fmax(): a NaN must stay */
    highest = fmax(highest, jax);
    fprintf(out, "%d,%.9g,%.9g\n", step, loss, jax);
    printf("%s  step %3d  loss %.6f  JAX %.6f", step % 3 != 0 ? "   |" : "\n", step, loss, jax);
  }
  printf("\nlargest difference to the %d losses of JAX: %.2e (allowed: %.2e)\n", step + 1, largest,
         kTolerance * highest);
  return largest / (kTolerance * highest);
}

static double test_accuracy(Program* program, nrt_tensor_t* logits) {
  static float values[kMostRows][kClasses];
  int right = 0;
  check("prediction", nrt_execute(program->model, program->inputs, program->outputs));
  check("logits", nrt_tensor_read(logits, values, 0, sizeof values[0] * (size_t)test.rows));
  for (int row = 0; row < test.rows; ++row) {
    int best = 0;
    for (int digit = 1; digit < kClasses; ++digit) {
      best = values[row][digit] > values[row][best] ? digit : best;
    }
    right += best == test.digits[row];
  }
  printf("test digits recognised: %d of %d = %.2f %% (wanted: %.0f %%)\n", right, test.rows,
         100.0 * right / test.rows, 100 * kAccuracy);
  return (double)right / test.rows;
}

int main(int argc, char** argv) {
  uint32_t state;
  FILE* curve = argc == 6 ? fopen(argv[4], "r") : NULL;
  FILE* out = argc == 6 ? fopen(argv[5], "w") : NULL;
  if (out == NULL || curve == NULL || fscanf(curve, "# seed=%u%*[^\n] step,loss", &state) != 1) {
    fputs("usage: train_digits TRAIN.neff PREDICT.neff DIGITS.csv.gz CURVE.csv OUT.csv\n", stderr);
    return 2;
  }
  read_digits(argv[3]);
  check("nrt_init", nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
  Program trainer = load(argv[1]), predictor = load(argv[2]);
  nrt_tensor_t* tensors[kState + 3];
  for (int i = 0; i < kState + 3; ++i) { /* parameters, momenta, pixels, digits; loss */
    tensors[i] = bind(&trainer, i < kState + 2 ? i : 2 * kState + 2, NULL);
    if (i < kState) { /* a step updates parameters and momenta in place */
      bind(&trainer, kState + 2 + i, tensors[i]);
      initialise(&trainer.info->tensor_array[i], tensors[i], i < kParameters ? &state : NULL);
    }
  }
  double start = now(), used = train(&trainer, tensors, curve, out), wall = now() - start;
  for (int i = 0; i < kParameters; ++i) {
    bind(&predictor, i, tensors[i]);
  }
  nrt_tensor_t* pixels = bind(&predictor, kParameters, NULL);
  check("test split", nrt_tensor_write(pixels, test.pixels, 0, sizeof test.pixels[0] * test.rows));
  double accuracy = test_accuracy(&predictor, bind(&predictor, kParameters + 1, NULL));
  NRT_STATUS (*get_times)(const nrt_model_t*, onrt_model_times_t*, size_t, size_t*) =
      (void*)dlsym(RTLD_DEFAULT, "onrt_get_model_times"); /* not in the vendor's library */
  onrt_model_times_t times;
  size_t size;
  if (get_times != NULL && get_times(trainer.model, &times, sizeof times, &size) == NRT_SUCCESS) {
    printf("device time (timing model): %.3f ms for %lu steps\n", 1e-6 * times.total_device_ns,
           (unsigned long)times.executions);
  }
  printf("wall time (this host): %.1f ms for the same\n", 1e3 * wall);
  nrt_close();
  return fclose(out) == 0 && used <= 1 && accuracy >= kAccuracy ? 0 : 1;
}
