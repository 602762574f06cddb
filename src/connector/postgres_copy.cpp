// COPY in and out of PostgreSQL. Each is a conversation that pauses where the COPY begins, and goes
// on after its end.
#include <memory>
#include <string>
#include <utility>

#include "connector/postgres_session.hpp"

namespace cenote::postgres {

namespace {

namespace asio = boost::asio;

using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::need;
using connector_detail::result_in;
using detail::conversation;
using detail::session;

/// The COPY of one object, which ends with it, or earlier with an error.
class copying {
public:
    copying(std::shared_ptr<session> on, ExecStatusType direction)
        : on_(std::move(on)), direction_(direction) {}

    /// COPY is not possible in pipeline mode, so a pending reset and setup go first.
    template <class Mode>
    result_in<Mode, void> begin(std::string_view text) {
        on_->opened().refuse("COPY");
        if (on_->reset_pending() || on_->setup_pending()) {
            conversation first(on_, conversation::origin::connector);
            first.set_up();
            co_await Mode::drive(first, on_->deadline());
        }
        conversation_.emplace(on_, conversation::origin::borrower);
        conversation_->expect_copy(direction_);
        conversation_->query(text, {});
        co_await drive<Mode>(&*conversation_);
        if (conversation_->copies()) co_return;
        conversation_.reset();
        throw statement_error(direction_ == PGRES_COPY_IN
                                  ? "cenote: PostgreSQL: the statement is not COPY … FROM STDIN"
                                  : "cenote: PostgreSQL: the statement is not COPY … TO STDOUT",
                              "42601");
    }
    /// An error or a cancellation ends it.
    template <class Mode>
    result_in<Mode, void> drive(connector_detail::steps* what) {
        try {
            co_await Mode::drive(*what, on_->deadline());
        } catch (...) {
            conversation_.reset();
            throw;
        }
    }
    bool over() const noexcept { return !conversation_; }
    void end() noexcept { conversation_.reset(); }
    conversation& it() { return *conversation_; }
    PGconn* handle() const noexcept { return on_->handle(); }
    bool is_binary() const noexcept { return PQbinaryTuples(conversation_->reply()) != 0; }

private:
    std::shared_ptr<session> on_;
    ExecStatusType direction_;
    std::optional<conversation> conversation_;  // until its end
};

/// Sends what libpq has buffered.
class sending final : public connector_detail::steps {
public:
    explicit sending(copying& of) : of_(of) {}

    /// Reads, too: the server may be waiting until its notices are read.
    need step() override {
        int left = PQflush(of_.handle());
        if (left < 0) of_.it().fail();
        if (left == 0) return need::nothing;
        of_.it().consume();
        return need::to_do_either;
    }
    int descriptor() const override { return PQsocket(of_.handle()); }
    const char* expected() const override { return "PostgreSQL to read the rows of a COPY"; }

private:
    copying& of_;
};

class writer final : public sql::detail::copy_writer, public std::enable_shared_from_this<writer> {
public:
    explicit writer(std::shared_ptr<session> on) : copy_(std::move(on), PGRES_COPY_IN) {}
    writer(const writer&) = delete;
    writer& operator=(const writer&) = delete;
    /// The connection survives only if the server's reply has come already.
    ~writer() override {
        if (copy_.over() || !copy_.it().copies()) return;
        if (PQputCopyEnd(copy_.handle(), "abandoned") != 1 || PQflush(copy_.handle()) != 0) return;
        copy_.it().end_copy();
        copy_.it().drained();
    }

    template <class Mode, class Text>
    static result_in<Mode, sql::copy_in> begin(std::shared_ptr<session> on, Text text) {
        auto begun = std::make_shared<writer>(std::move(on));
        co_await begun->copy_.begin<Mode>(text);
        begun->binary_ = begun->copy_.is_binary();
        co_return sql::copy_in(std::move(begun));
    }

    void flush() override { flush_of<blocking>(shared_from_this()).get(); }
    asio::awaitable<void> async_flush() override { return flush_of<awaited>(shared_from_this()); }
    std::uint64_t finish() override { return finish_of<blocking>(shared_from_this()).get(); }
    asio::awaitable<std::uint64_t> async_finish() override {
        return finish_of<awaited>(shared_from_this());
    }
    bool is_binary() const override { return binary_; }

private:
    template <class Mode>
    static result_in<Mode, void> flush_of(std::shared_ptr<writer> of) {
        of->put();
        sending all(of->copy_);
        co_await of->copy_.drive<Mode>(&all);
    }
    template <class Mode>
    static result_in<Mode, std::uint64_t> finish_of(std::shared_ptr<writer> of) {
        of->put();
        if (PQputCopyEnd(of->copy_.handle(), nullptr) != 1) of->copy_.it().fail();
        of->copy_.it().end_copy();
        co_await of->copy_.drive<Mode>(&of->copy_.it());
        auto* reply = const_cast<PGresult*>(of->copy_.it().reply());
        const std::uint64_t rows = std::strtoull(PQcmdTuples(reply), nullptr, 10);
        of->copy_.end();
        co_return rows;
    }
    /// libpq buffers everything, so the limit is that of `collected`.
    void put() {
        if (copy_.over()) throw std::logic_error("cenote: this COPY has ended");
        if (!copy_.it().copies())
            throw std::logic_error("cenote: the end of this COPY is awaited already");
        const int size = static_cast<int>(collected.size());
        if (size > 0 && PQputCopyData(copy_.handle(), collected.data(), size) != 1)
            copy_.it().fail();
        collected.clear();
    }

    copying copy_;
    bool binary_ = false;
};

/// Collects the rows that have come, until there are enough for one call.
class receiving final : public connector_detail::steps {
public:
    receiving(copying& of, std::string& into) : of_(of), into_(into) {}

    need step() override {
        if (!of_.it().copies()) return of_.it().step();
        for (bool read = false;; read = true) {
            if (take()) return of_.it().copies() ? need::nothing : of_.it().step();
            if (read) return into_.empty() ? need::to_read : need::nothing;
            of_.it().consume();
        }
    }
    int descriptor() const override { return PQsocket(of_.handle()); }
    const char* expected() const override { return "a row of a COPY"; }

private:
    /// True: there is enough, or the last row has come.
    bool take() {
        while (into_.size() < sql::detail::copy_writer::enough) {
            char* row = nullptr;
            int size = PQgetCopyData(of_.handle(), &row, 1);
            if (size == 0) return false;
            std::unique_ptr<char, decltype(&PQfreemem)> owned(row, &PQfreemem);
            if (size == -2) of_.it().fail();
            if (size < 0) {
                of_.it().end_copy();
                return true;
            }
            into_.append(row, static_cast<std::size_t>(size));
        }
        return true;
    }

    copying& of_;
    std::string& into_;
};

class reader final : public sql::detail::copy_reader, public std::enable_shared_from_this<reader> {
public:
    explicit reader(std::shared_ptr<session> on) : copy_(std::move(on), PGRES_COPY_OUT) {}
    reader(const reader&) = delete;
    reader& operator=(const reader&) = delete;
    ~reader() override {
        if (!copy_.over()) copy_.it().drained();
    }

    template <class Mode, class Text>
    static result_in<Mode, sql::copy_out> begin(std::shared_ptr<session> on, Text text) {
        auto begun = std::make_shared<reader>(std::move(on));
        co_await begun->copy_.begin<Mode>(text);
        co_return sql::copy_out(std::move(begun));
    }

    std::optional<std::string_view> next() override {
        return next_of<blocking>(shared_from_this()).get();
    }
    asio::awaitable<std::optional<std::string_view>> async_next() override {
        return next_of<awaited>(shared_from_this());
    }

private:
    using piece = std::optional<std::string_view>;

    template <class Mode>
    static result_in<Mode, piece> next_of(std::shared_ptr<reader> of) {
        of->rows_.clear();
        if (of->copy_.over()) co_return std::nullopt;
        of->copy_.it().read().restart();
        receiving some(of->copy_, of->rows_);
        co_await of->copy_.drive<Mode>(&some);
        if (!of->copy_.it().copies()) of->copy_.end();
        if (of->rows_.empty()) co_return std::nullopt;
        co_return std::string_view(of->rows_);
    }

    copying copy_;
    std::string rows_;
};

}  // namespace

sql::copy_in session::copy_in(std::string_view text) {
    return writer::begin<blocking>(shared_from_this(), text).get();
}

asio::awaitable<sql::copy_in> session::async_copy_in(std::string text) {
    return writer::begin<awaited>(shared_from_this(), std::move(text));
}

sql::copy_out session::copy_out(std::string_view text) {
    return reader::begin<blocking>(shared_from_this(), text).get();
}

asio::awaitable<sql::copy_out> session::async_copy_out(std::string text) {
    return reader::begin<awaited>(shared_from_this(), std::move(text));
}

}  // namespace cenote::postgres
