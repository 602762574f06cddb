// Queries and writes to terminals; handles signals through a signalfd.
#include "terminal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <system_error>
#include <unistd.h>

namespace terminal {

namespace {

// getenv is safe here: nothing in this program changes the environment.
bool set(const char* variable) {
    const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
    return value != nullptr && *value != '\0';
}

bool dumb() {
    const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
    return term != nullptr && std::string_view(term) == "dumb";
}

bool knows_colors(color_choice choice) {
    if (choice != color_choice::automatic) return choice == color_choice::always;
    return ::isatty(STDOUT_FILENO) == 1 && !set("NO_COLOR") && !dumb();
}

const char* code_of(tint color) {
    switch (color) {
        case tint::bold: return "1";
        case tint::dim: return "2";
        case tint::red: return "31";
        case tint::green: return "32";
        case tint::yellow: return "33";
        case tint::blue: return "34";
        case tint::cyan: return "36";
        case tint::plain: break;
    }
    return "0";
}

std::size_t width_of(int descriptor, std::size_t otherwise) {
    winsize size{};
    if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
    return std::max<std::size_t>(size.ws_col, 20);
}

}  // namespace

const std::map<std::string, color_choice>& color_choices() {
    static const std::map<std::string, color_choice> names{{"auto", color_choice::automatic},
                                                           {"always", color_choice::always},
                                                           {"never", color_choice::never}};
    return names;
}

palette::palette(color_choice choice) : colored_(knows_colors(choice)) {}

std::string palette::operator()(tint color, std::string_view text) const {
    if (!colored_ || color == tint::plain || text.empty()) return std::string(text);
    std::string painted = "\033[";
    painted += code_of(color);
    painted += 'm';
    painted += text;
    return painted += "\033[0m";
}

std::size_t width() { return width_of(STDOUT_FILENO, 100); }

bool can_overwrite() { return ::isatty(STDOUT_FILENO) == 1 && !dumb(); }

bool output_is_closed() {
    pollfd output{STDOUT_FILENO, POLLOUT, 0};
    return ::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0;
}

std::size_t columns_of(std::string_view text) {
    std::size_t columns = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\033') {
            i = std::min(text.find('m', i), text.size() - 1);
        } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
            ++columns;
        }
    }
    return columns;
}

std::vector<std::string> wrap(std::string_view text, std::size_t columns) {
    std::vector<std::string> lines{""};
    std::size_t used = 0;
    while (!text.empty()) {
        std::size_t end = std::min(text.find(' '), text.size());
        std::string_view word = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        std::size_t needs = columns_of(word);
        if (used > 0 && used + 1 + needs > columns) {
            lines.emplace_back();
            used = 0;
        }
        if (used > 0) lines.back() += ' ';
        lines.back() += word;
        used += needs + (used > 0 ? 1 : 0);
    }
    return lines;
}

std::string cut(std::string text, std::size_t columns) {
    // A byte that continues a UTF-8 sequence takes no column.
    while (columns_of(text) > columns) {
        while ((static_cast<unsigned char>(text.back()) & 0xC0U) == 0x80U) text.pop_back();
        text.pop_back();
    }
    return text;
}

std::string table::line(const std::vector<std::string>& cells,
                        const std::vector<std::size_t>& widths, std::string_view indent) const {
    std::string text(indent);
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        std::string cell = i < cells.size() ? cells[i] : "";
        std::string padding(widths[i] - columns_of(cell), ' ');
        if (i > 0) text += "  ";
        text += columns_[i].to == align::left ? cell + padding : padding + cell;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text += '\n';
}

std::string table::to_text(const palette& paint, std::string_view indent) const {
    std::vector<std::size_t> widths;
    std::vector<std::string> titles;
    bool titled = false;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        widths.push_back(columns_of(columns_[i].title));
        for (const auto& row : rows_)
            if (i < row.size()) widths[i] = std::max(widths[i], columns_of(row[i]));
        titles.push_back(paint(tint::dim, columns_[i].title));
        titled = titled || !columns_[i].title.empty();
    }
    std::string text;
    if (titled) text += line(titles, widths, indent);
    for (const auto& row : rows_) text += line(row, widths, indent);
    return text;
}

std::string printable(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto byte = static_cast<unsigned char>(text[i]);
        bool has_next = i + 1 < text.size();
        auto next = static_cast<unsigned char>(has_next ? text[i + 1] : '\0');
        if (byte == 0xC2 && next >= 0x80 && next < 0xA0) ++i;  // C1 control characters in UTF-8
        else if (byte == '\t') result += ' ';
        else if (byte == '\n' || (byte >= 0x20 && byte != 0x7F)) result += text[i];
    }
    return result;
}

std::string bar(double share, std::size_t width) {
    static constexpr std::array<const char*, 8> eighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    auto filled =
        static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width) * 8);
    std::string text;
    for (std::size_t i = 0; i < filled / 8; ++i) text += "█";
    if (filled % 8 > 0) text += eighths[filled % 8];
    for (std::size_t i = (filled + 7) / 8; i < width; ++i) text += "░";
    return text;
}

progress::progress(std::string title, bool hidden)
    : title_(std::move(title)), shown_(!hidden && ::isatty(STDERR_FILENO) == 1 && !dumb()) {}

progress::~progress() {
    if (!drawn_) return;
    std::fprintf(stderr, "\r\033[K");
    std::fflush(stderr);
}

void progress::at(double share, std::string_view note) {
    using namespace std::chrono_literals;
    auto now = std::chrono::steady_clock::now();
    if (!shown_ || (drawn_ && now - drawn_at_ < 100ms)) return;
    drawn_ = true;
    drawn_at_ = now;
    std::size_t room = width_of(STDERR_FILENO, 80) - 1;
    std::string text = title_ + " " + bar(share, 24);
    if (!note.empty()) text.append(" ").append(note);
    // "\r" cannot erase a line that the terminal has wrapped.
    std::fprintf(stderr, "\r%s\033[K", cut(std::move(text), room).c_str());
    std::fflush(stderr);
}

namespace {

struct {
    std::mutex mutex;
    std::vector<const std::string*> all;
} exit_notices;

void print_exit_notices() {
    std::lock_guard lock(exit_notices.mutex);
    for (const std::string* text : exit_notices.all)
        std::fprintf(stderr, "\ncenote: %s\n", text->c_str());
}

/// Under nohup, SIGHUP is ignored; a signalfd would still receive it.
bool ignored(int signal) {
    struct sigaction now{};
    return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

exit_notice::exit_notice(std::string text) : text_(std::move(text)) {
    std::lock_guard lock(exit_notices.mutex);
    exit_notices.all.push_back(&text_);
}

exit_notice::~exit_notice() {
    std::lock_guard lock(exit_notices.mutex);
    std::erase(exit_notices.all, &text_);
}

interruption::interruption() {
    sigset_t ours{};
    ::sigemptyset(&ours);
    ::sigaddset(&ours, SIGINT);
    ::sigaddset(&ours, SIGTERM);
    if (!ignored(SIGHUP)) ::sigaddset(&ours, SIGHUP);
    signals_ = ::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    end_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signals_ < 0 || end_ < 0) {
        int error = errno;
        ::close(signals_);
        ::close(end_);
        throw std::system_error(error, std::generic_category(),
                                "cannot create a descriptor for signals");
    }
    ::pthread_sigmask(SIG_BLOCK, &ours, &before_);
    watcher_ = std::thread([this] { watch(); });
}

interruption::~interruption() {
    std::uint64_t one = 1;
    [[maybe_unused]] auto written = ::write(end_, &one, sizeof one);
    watcher_.join();
    ::close(signals_);
    ::close(end_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void interruption::watch() {
    for (;;) {
        std::array<pollfd, 2> both{{{signals_, POLLIN, 0}, {end_, POLLIN, 0}}};
        if (::poll(both.data(), both.size(), -1) < 0) continue;
        if (both[1].revents != 0) return;
        signalfd_siginfo received{};
        if (::read(signals_, &received, sizeof received) != static_cast<ssize_t>(sizeof received))
            continue;
        // A second signal asks for an immediate end.
        if (source_.request_stop()) continue;
        print_exit_notices();
        ::_exit(128 + static_cast<int>(received.ssi_signo));
    }
}

bool interruption::sleep_for(std::chrono::nanoseconds time) const {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, token(), time, [] { return false; });
    return !happened();
}

}  // namespace terminal
