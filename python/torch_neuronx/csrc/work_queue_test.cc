// SPDX-License-Identifier: Apache-2.0
#include "python/torch_neuronx/csrc/work_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace tnx {
namespace {

struct Task {
  std::function<void()> body;
  std::vector<int>* dropped = nullptr;  // is told the number
  int number = 0;
};

void run(Task& task, bool dropped) {
  if (!dropped) {
    task.body();
  } else if (task.dropped != nullptr) {
    task.dropped->push_back(task.number);
  }
}

using Queue = WorkQueue<Task>;

uint64_t push(Queue& queue, std::function<void()> body, bool urgent = false) {
  return queue.push(urgent, [&](Task& task) {
    task.body = std::move(body);
    task.dropped = nullptr;
  });
}

class WorkQueueTest : public testing::TestWithParam<bool> {
 protected:
  bool with_worker() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Worker, WorkQueueTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Thread" : "None"; });

TEST_P(WorkQueueTest, RunsTasksInTheOrderInWhichTheyWerePushed) {
  Queue queue(&run, with_worker(), 16);
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    push(queue, [&order, i] { order.push_back(i); }, i % 7 == 0);
  }
  queue.wait_all();
  ASSERT_EQ(order.size(), 1000U);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(order[static_cast<size_t>(i)], i);
  }
}

TEST_P(WorkQueueTest, WaitsForOneTaskAndNotForThoseBehind) {
  Queue queue(&run, with_worker());
  std::atomic<int> done{0};
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 3; ++i) {
    numbers.push_back(push(queue, [&] { ++done; }));
  }
  EXPECT_EQ(numbers, (std::vector<uint64_t>{1, 2, 3}));
  queue.wait(numbers[1]);
  EXPECT_GE(done.load(), 2);
  EXPECT_GE(queue.done(), 2U);
  queue.wait_all();
  EXPECT_TRUE(queue.idle());
}

TEST(WorkQueue, ALoneTaskIsRunByWhoWaitsForIt) {
  Queue queue(&run, true);
  std::thread::id runner;
  queue.wait(push(queue, [&] { runner = std::this_thread::get_id(); }));
  EXPECT_EQ(runner, std::this_thread::get_id());
}

TEST(WorkQueue, UrgentTasksRunThoughNobodyWaits) {
  Queue queue(&run, true);
  std::atomic<bool> done{false};
  push(queue, [&] { done = true; }, true);
  while (!done.load()) {
    std::this_thread::yield();
  }
}

TEST(WorkQueue, HurriedTasksRunThoughNobodyWaits) {
  Queue queue(&run, true);
  std::atomic<bool> done{false};
  push(queue, [&] { done = true; });
  queue.hurry();
  while (!done.load()) {
    std::this_thread::yield();
  }
}

TEST_P(WorkQueueTest, PushingWaitsWhileTheQueueIsFull) {
  Queue queue(&run, with_worker(), 8);
  std::atomic<uint64_t> most{0};
  for (int i = 0; i < 200; ++i) {
    push(queue, [] { std::this_thread::sleep_for(std::chrono::microseconds(20)); });
    most = std::max(most.load(), queue.pushed() - queue.done());
  }
  EXPECT_LE(most.load(), 8U);
  queue.wait_all();
}

TEST_P(WorkQueueTest, AnErrorComesOutOfTheNextWaitAndWhatIsBehindItIsDropped) {
  Queue queue(&run, with_worker());
  std::vector<int> dropped;
  int ran = 0;
  std::atomic<bool> all_pushed{false};
  push(queue, [&] {
    while (!all_pushed.load()) {
      std::this_thread::yield();
    }
    ++ran;
  });
  push(queue, [] { throw std::runtime_error("the DMA ring is broken"); });
  for (int i = 0; i < 2; ++i) {
    queue.push(false, [&](Task& task) {
      task.body = [&] { ran += 100; };
      task.dropped = &dropped;
      task.number = i;
    });
  }
  all_pushed = true;
  try {
    queue.wait_all();
    FAIL() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "the DMA ring is broken");
  }
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(dropped, (std::vector<int>{0, 1}));
  // The error was told: the queue goes on.
  queue.wait(push(queue, [&] { ++ran; }));
  EXPECT_EQ(ran, 2);
}

TEST_P(WorkQueueTest, AnErrorComesOutOfALaterPush) {
  Queue queue(&run, with_worker());
  push(queue, [] { throw std::runtime_error("broken"); });
  queue.drain();
  EXPECT_THROW(push(queue, [] {}), std::runtime_error);
  EXPECT_NO_THROW(queue.wait(push(queue, [] {})));
}

TEST_P(WorkQueueTest, StoppingDropsWhatIsQueuedAndQueuesNothingMore) {
  Queue queue(&run, with_worker());
  std::atomic<int> ran{0};
  std::vector<int> dropped;
  for (int i = 0; i < 3; ++i) {
    queue.push(false, [&](Task& task) {
      task.body = [&] { ++ran; };
      task.dropped = &dropped;
      task.number = i;
    });
  }
  queue.stop();
  EXPECT_EQ(dropped.size() + static_cast<size_t>(ran.load()), 3U);
  push(queue, [&] { ran = 1000; });
  queue.wait_all();
  queue.stop();
  EXPECT_LT(ran.load(), 1000);
}

// Many threads push and wait at once; each one's tasks keep their order, and nobody is forgotten.
TEST_P(WorkQueueTest, ThreadsShareAQueue) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 2000;
  Queue queue(&run, with_worker(), 32);
  std::vector<std::vector<int>> seen(kThreads);  // written by runners, one at a time
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        const uint64_t number = push(queue, [&seen, t, i] { seen[t].push_back(i); }, i % 5 == 0);
        if (i % 17 == 0) {
          queue.wait(number);
        }
      }
      queue.wait_all();
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (const auto& list : seen) {
    ASSERT_EQ(list.size(), static_cast<size_t>(kTasks));
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
  }
}

// A worker that falls asleep just when something is pushed must not sleep on: the window is met now
// and then in this many turns.
TEST(WorkQueue, NoWakeUpIsLost) {
  Queue queue(&run, true);
  for (int i = 0; i < 300; ++i) {
    std::atomic<bool> done{false};
    std::this_thread::sleep_for(std::chrono::microseconds(i % 130));
    push(queue, [&] { done = true; }, true);
    while (!done.load()) {
      std::this_thread::yield();
    }
  }
}

}  // namespace
}  // namespace tnx
