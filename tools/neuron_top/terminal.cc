// SPDX-License-Identifier: Apache-2.0
#include "tools/neuron_top/terminal.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "runtime/base/format.h"
#include "tools/common/table.h"

// Last: it defines macros with common names.
#include <curses.h>

namespace onrt::tools {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t g_stop = 0;
void stop(int) { g_stop = 1; }

// Colour pairs by Style; attributes where there is no colour.
attr_t attribute_of(Style style) {
  const bool colours = ::has_colors();
  const auto pair = [&](int number, attr_t otherwise) -> attr_t {
    return colours ? COLOR_PAIR(number) : otherwise;
  };
  switch (style) {
    case Style::kTitle:
    case Style::kTab:
      return pair(1, A_REVERSE);
    case Style::kHeading:
      return pair(2, A_REVERSE);
    case Style::kGreen:
      return pair(3, A_BOLD);
    case Style::kRed:
      return pair(4, A_NORMAL);
    case Style::kSelected:
      return pair(5, A_STANDOUT);
    case Style::kDim:
      return A_DIM;
    default:
      return A_NORMAL;
  }
}

class Terminal {
 public:
  // Null text: no error.
  Status open() {
    screen_ = ::newterm(nullptr, stdout, stdin);
    if (screen_ == nullptr) {
      const char* name = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
      return Status(NRT_FAILURE, format("the terminal '{}' is not known; set TERM, or use --once",
                                        name == nullptr ? "" : name));
    }
    ::set_term(screen_);
    const char* const move = ::tigetstr(const_cast<char*>("cup"));
    if (move == nullptr || reinterpret_cast<intptr_t>(move) == -1) {
      return Status(NRT_FAILURE, "the terminal can't move its cursor; set TERM, or use --once");
    }
    ::cbreak();
    ::noecho();
    ::curs_set(0);
    ::keypad(stdscr, TRUE);
    ::nodelay(stdscr, TRUE);
    ::set_escdelay(25);
    if (::has_colors()) {
      ::start_color();
      ::init_pair(1, COLOR_WHITE, COLOR_BLUE);
      ::init_pair(2, COLOR_BLACK, COLOR_CYAN);
      ::init_pair(3, COLOR_GREEN, COLOR_BLACK);
      ::init_pair(4, COLOR_RED, COLOR_BLACK);
      ::init_pair(5, COLOR_YELLOW, COLOR_RED);
    }
    return ok_status();
  }
  ~Terminal() {
    if (screen_ != nullptr) {
      ::endwin();
      ::delscreen(screen_);
    }
  }
  Terminal() = default;
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void show(const std::vector<Line>& lines) const {
    ::erase();
    for (size_t row = 0; row < lines.size() && static_cast<int>(row) < LINES; ++row) {
      ::move(static_cast<int>(row), 0);
      for (const Span& span : lines[row]) {
        ::attrset(attribute_of(span.style));
        ::addnstr(span.text.c_str(), -1);
      }
    }
    ::attrset(A_NORMAL);
    ::refresh();
  }

 private:
  SCREEN* screen_ = nullptr;
};

struct Binding {
  int code;
  Key key;
};
constexpr Binding kBindings[] = {
    {KEY_UP, Key::kUp},       {KEY_DOWN, Key::kDown},   {KEY_LEFT, Key::kLeft},
    {KEY_RIGHT, Key::kRight}, {KEY_ENTER, Key::kEnter}, {'\n', Key::kEnter},
    {'\r', Key::kEnter},      {'x', Key::kExpandAll},   {'X', Key::kExpandAll},
    {'a', Key::kPrevious},    {'A', Key::kPrevious},    {'d', Key::kNext},
    {'D', Key::kNext},        {'f', Key::kFlops},       {'F', Key::kFlops},
};

// False: the user wants to end.
bool take_keys(const TopModel& model, TopState* state) {
  for (int code = ::getch(); code != ERR; code = ::getch()) {
    if (code == 'q' || code == 'Q') {
      return false;
    }
    if (code >= '1' && code <= '9') {
      state->choose_tab(static_cast<size_t>(code - '0'), model);
    }
    for (const Binding& binding : kBindings) {
      if (binding.code == code) {
        state->press(binding.key, model);
      }
    }
  }
  return true;
}

std::vector<Line> with_message(std::vector<Line> lines, const std::string& message) {
  if (!message.empty() && lines.size() > 1) {
    lines[1] = {
        {shortened(printable(message), static_cast<size_t>(std::max(3, COLS))), Style::kRed}};
  }
  return lines;
}

}  // namespace

Status run_terminal(const Context& context, std::shared_ptr<const Look> first,
                    std::chrono::milliseconds interval) {
  Terminal terminal;
  ONRT_RETURN_IF_ERROR(terminal.open());
  struct sigaction action{};
  action.sa_handler = stop;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGHUP, &action, nullptr);
  TopModel model = make_model(nullptr, *first);
  TopState state;
  std::string message;
  auto due = Clock::now() + interval;
  while (g_stop == 0) {
    terminal.show(with_message(draw(model, state, COLS, LINES), message));
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(due - Clock::now());
    pollfd input{STDIN_FILENO, POLLIN, 0};
    // Returns early for a key, and for SIGWINCH: getch() then gives KEY_RESIZE.
    ::poll(&input, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if ((input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0 || !take_keys(model, &state)) {
      break;
    }
    if (Clock::now() < due) {
      continue;
    }
    due = Clock::now() + interval;
    const auto look = collect(context);
    message = look.ok() ? "" : std::string(look.status().message());
    if (look.ok()) {
      model = make_model(first.get(), **look);
      first = *look;
    }
  }
  return ok_status();
}

}  // namespace onrt::tools
