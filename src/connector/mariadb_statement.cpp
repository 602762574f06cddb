// Statements of MariaDB: parameters into the binary protocol, rows out of it.
#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <new>
#include <stdexcept>

#include "connector/mariadb_session.hpp"

namespace cenote::mariadb::detail {

namespace {

constexpr unsigned binary_charset = 63;

/// The kind of value that a column becomes.
enum class shape { none, whole, single, real, bits, time, text, bytes };

shape shape_of(const MYSQL_FIELD& field) {
    switch (field.type) {
        case MYSQL_TYPE_TINY:
        case MYSQL_TYPE_SHORT:
        case MYSQL_TYPE_INT24:
        case MYSQL_TYPE_LONG:
        case MYSQL_TYPE_LONGLONG:
        case MYSQL_TYPE_YEAR: return shape::whole;
        case MYSQL_TYPE_FLOAT: return shape::single;
        case MYSQL_TYPE_DOUBLE: return shape::real;
        case MYSQL_TYPE_NULL: return shape::none;
        case MYSQL_TYPE_BIT: return shape::bits;
        case MYSQL_TYPE_DATE:
        case MYSQL_TYPE_NEWDATE:
        case MYSQL_TYPE_TIME:
        case MYSQL_TYPE_TIME2:
        case MYSQL_TYPE_DATETIME:
        case MYSQL_TYPE_DATETIME2:
        case MYSQL_TYPE_TIMESTAMP:
        case MYSQL_TYPE_TIMESTAMP2: return shape::time;
        case MYSQL_TYPE_DECIMAL:
        case MYSQL_TYPE_NEWDECIMAL:
        case MYSQL_TYPE_JSON:
        case MYSQL_TYPE_ENUM:
        case MYSQL_TYPE_SET: return shape::text;
        case MYSQL_TYPE_GEOMETRY: return shape::bytes;
        default: break;
    }
    return field.charsetnr == binary_charset ? shape::bytes : shape::text;
}

sql::value::data whole_or_text(std::uint64_t number) {
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return static_cast<std::int64_t>(number);
    return std::to_string(number);
}

/// Binds a parameter. Refers to its value.
struct binder {
    MYSQL_BIND* to;

    void operator()(std::monostate) const { to->buffer_type = MYSQL_TYPE_NULL; }
    void operator()(const bool& b) const { refer(MYSQL_TYPE_TINY, &b, sizeof b); }
    void operator()(const std::int64_t& i) const { refer(MYSQL_TYPE_LONGLONG, &i, sizeof i); }
    void operator()(const double& d) const { refer(MYSQL_TYPE_DOUBLE, &d, sizeof d); }
    void operator()(std::string_view text) const {
        refer(MYSQL_TYPE_STRING, text.data(), text.size());
    }
    void operator()(std::span<const std::byte> octets) const {
        refer(MYSQL_TYPE_BLOB, octets.data(), octets.size());
    }

private:
    void refer(enum_field_types type, const void* what, std::size_t size) const {
        static constexpr char nothing = 0;
        to->buffer_type = type;
        to->buffer = const_cast<void*>(what == nullptr ? &nothing : what);
        to->buffer_length = size;
    }
};

}  // namespace

// Rows.

struct row_reader::column {
    shape is = shape::none;
    bool is_unsigned = false;
    my_bool null = 0;
    my_bool cut = 0;
    unsigned long length = 0;
    std::int64_t whole = 0;
    float single = 0;
    double real = 0;
    std::array<char, 48> time{};

    MYSQL_BIND place() {
        MYSQL_BIND b{};
        b.length = &length;
        b.is_null = &null;
        b.error = &cut;
        b.is_unsigned = is_unsigned ? 1 : 0;
        auto put = [&](enum_field_types type, void* where, unsigned long size) {
            b.buffer_type = type;
            b.buffer = where;
            b.buffer_length = size;
        };
        switch (is) {
            case shape::whole: put(MYSQL_TYPE_LONGLONG, &whole, sizeof whole); break;
            case shape::single: put(MYSQL_TYPE_FLOAT, &single, sizeof single); break;
            case shape::real: put(MYSQL_TYPE_DOUBLE, &real, sizeof real); break;
            case shape::time: put(MYSQL_TYPE_STRING, time.data(), time.size()); break;
            case shape::none: put(MYSQL_TYPE_NULL, nullptr, 0); break;
            // The first fetch reports only the length; the second one reads into a buffer of that
            // size.
            case shape::bits:
            case shape::text:
            case shape::bytes: put(MYSQL_TYPE_BLOB, nullptr, 0); break;
        }
        return b;
    }
};

row_reader::row_reader(MYSQL_STMT* of) : of_(of), columns_(mysql_stmt_field_count(of)) {
    std::unique_ptr<MYSQL_RES, decltype(&mysql_free_result)> described(
        mysql_stmt_result_metadata(of), &mysql_free_result);
    if (described == nullptr) throw std::bad_alloc();
    const MYSQL_FIELD* fields = mysql_fetch_fields(described.get());
    sql::column_names names;
    std::vector<MYSQL_BIND> places;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        names.emplace_back(fields[i].name, fields[i].name_length);
        columns_[i].is = shape_of(fields[i]);
        columns_[i].is_unsigned = (fields[i].flags & UNSIGNED_FLAG) != 0;
        places.push_back(columns_[i].place());
    }
    names_ = std::make_shared<const sql::column_names>(std::move(names));
    if (mysql_stmt_bind_result(of, places.data()) != 0) throw std::bad_alloc();
}

row_reader::~row_reader() = default;

std::vector<sql::value> row_reader::values() const {
    std::vector<sql::value> all;
    all.reserve(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) all.push_back(value_of(i));
    return all;
}

std::size_t row_reader::memory() const {
    std::size_t all = sizeof(sql::row) + columns_.size() * sizeof(sql::value);
    for (const column& c : columns_)
        if (c.null == 0 && (c.is == shape::text || c.is == shape::bytes)) all += c.length;
    return all;
}

sql::value row_reader::value_of(std::size_t number) const {
    const column& c = columns_[number];
    if (c.null != 0) return {};
    auto fetch = [&](void* to) {
        MYSQL_BIND rest{};
        unsigned long length = 0;
        rest.buffer_type = MYSQL_TYPE_BLOB;
        rest.buffer = to;
        rest.buffer_length = c.length;
        rest.length = &length;
        if (c.length > 0) mysql_stmt_fetch_column(of_, &rest, static_cast<unsigned>(number), 0);
    };
    switch (c.is) {
        case shape::none: break;
        case shape::whole:
            if (c.is_unsigned)
                return sql::value(whole_or_text(static_cast<std::uint64_t>(c.whole)));
            return sql::value(c.whole);
        case shape::single: return sql::value(static_cast<double>(c.single));
        case shape::real: return sql::value(c.real);
        case shape::time:
            return sql::value(std::string(c.time.data(), std::min(c.length, c.time.size())));
        case shape::bits: {
            std::array<unsigned char, 8> octets{};
            std::uint64_t all = 0;
            if (c.length > octets.size()) break;  // no type of MariaDB
            fetch(octets.data());
            for (std::size_t i = 0; i < c.length; ++i) all = all << 8 | octets[i];
            return sql::value(whole_or_text(all));
        }
        case shape::text: {
            std::string text(c.length, '\0');
            fetch(text.data());
            return sql::value(std::move(text));
        }
        case shape::bytes: {
            sql::bytes octets(c.length);
            fetch(octets.data());
            return sql::value(std::move(octets));
        }
    }
    return {};
}

// Statements.

prepared::prepared(MYSQL* on) : handle_(mysql_stmt_init(on)) {
    if (handle_ == nullptr) throw std::bad_alloc();
}

prepared::~prepared() {
    if (handle_ != nullptr && handle_->mysql == nullptr) mysql_stmt_close(handle_);
}

void prepared::note_prepared(std::string_view text) noexcept {
    has_columns_ = mysql_stmt_field_count(handle_) > 0;
    selects_ = may_select(text);
}

row_reader* prepared::read_rows() {
    reader_.reset();
    if (mysql_stmt_field_count(handle_) != 0) reader_ = std::make_unique<row_reader>(handle_);
    return reader_.get();
}

/// The next execution may have other columns, if the table was changed. The library would refuse
/// another number of columns after the server has executed the statement, unless it knows of none.
void prepared::forget_rows() noexcept {
    reader_.reset();
    handle_->bind_result_done = 0;
    handle_->field_count = 0;
}

void prepared::bind(std::span<const sql::parameter> parameters) {
    std::size_t wanted = mysql_stmt_param_count(handle_);
    if (wanted != parameters.size())
        throw statement_error("cenote: MariaDB: the statement has " + std::to_string(wanted) +
                              " parameters, but " + std::to_string(parameters.size()) +
                              " values were bound");
    if (parameters.empty()) return;
    std::vector<MYSQL_BIND> places(parameters.size());
    for (std::size_t i = 0; i < places.size(); ++i)
        std::visit(binder{&places[i]}, parameters[i].get());
    if (mysql_stmt_bind_param(handle_, places.data()) != 0) throw std::bad_alloc();
}

// Executing.

bool executing::advance() {
    switch (phase_) {
        case phase::begin:
            if (on().reset_pending()) {
                on().begin_pending_reset();
                with_reset() = true;
            } else if (std::unique_ptr<prepared> one = on().take_closable()) {
                call<mysql_stmt_close_start, mysql_stmt_close_cont>(&flag(), one->release());
                return true;
            }
            return prepare();
        case phase::prepared: return execute();
        case phase::executed: return on_reply();
        case phase::stored: return on_stored();
        case phase::copying: return copy();
        case phase::next: return next_result();
    }
    return false;
}

bool executing::prepare() {
    on().latest() = std::make_unique<prepared>(handle());
    what_ = on().latest().get();
    number() = 0;
    phase_ = phase::prepared;
    call<mysql_stmt_prepare_start, mysql_stmt_prepare_cont>(
        &number(), what_->handle(), text_.data(), static_cast<unsigned long>(text_.size()));
    return true;
}

/// The statement is executed only if the reset in front of its PREPARE has succeeded.
void executing::check_reset() {
    const preface& ahead = on().reads().ahead();
    if (ahead.refused()) fail_reset(ahead.code(), ahead.sqlstate(), ahead.text());
    if (!ahead.is_open()) return on().note_pending_reset_done();
    if (number() == 0) fail_reset(0, "", "the server has not replied to it");
}

bool executing::execute() {
    if (with_reset()) check_reset();
    constexpr unsigned no_room = 1461;  // max_prepared_stmt_count of the server
    if (number() != 0 && mysql_stmt_errno(what_->handle()) == no_room && on().stop_keeping()) {
        phase_ = phase::begin;
        return advance();
    }
    if (number() != 0) fail_statement(what_->handle());
    with_reset() = false;
    if (what_ == on().latest().get()) what_->note_prepared(text_);
    if (extent_ == extent::prepare) return false;
    if (many_.rows != nullptr) many_.rows->bind(what_->handle(), many_.first, many_.last);
    else what_->bind(parameters_);
    phase_ = phase::executed;
    call<mysql_stmt_execute_start, mysql_stmt_execute_cont>(&number(), what_->handle());
    return true;
}

/// The server has replied with the first or a further result.
bool executing::on_reply() {
    if (number() != 0) fail_statement(what_->handle());
    on().note_reply();
    row_reader* rows = what_->read_rows();
    on().note_found_rows(*what_);
    if (rows == nullptr) {
        std::uint64_t last_id = mysql_stmt_insert_id(what_->handle());
        result_.note_affected(mysql_stmt_affected_rows(what_->handle()),
                              static_cast<std::int64_t>(last_id));
        phase_ = phase::next;
        return true;
    }
    if (extent_ == extent::until_rows) return has_rows_ = true, false;
    phase_ = phase::stored;
    call<mysql_stmt_store_result_start, mysql_stmt_store_result_cont>(&number(), what_->handle());
    return true;
}

bool executing::on_stored() {
    if (number() != 0) fail_statement(what_->handle());
    on().note_reply();
    phase_ = phase::next;
    if (std::exchange(has_result_, true)) return true;
    result_ = sql::result(what_->reader()->names());
    phase_ = phase::copying;
    return true;
}

/// Converts the rows that the library has stored, as many as one step may.
bool executing::copy() {
    for (std::size_t until = memory_ + connector_detail::max_bytes_per_step; memory_ < until;) {
        int got = mysql_stmt_fetch(what_->handle());
        if (got == MYSQL_NO_DATA) return phase_ = phase::next, true;
        if (got != 0 && got != MYSQL_DATA_TRUNCATED) fail_statement(what_->handle());
        memory_ += what_->reader()->memory();
        if (memory_ > max_bytes()) refuse_length();
        result_.add(what_->reader()->values());
    }
    yield();
    return true;
}

bool executing::next_result() {
    if (mysql_stmt_more_results(what_->handle()) == 0) {
        mysql_stmt_free_result(what_->handle());
        what_->forget_rows();
        return false;
    }
    phase_ = phase::executed;
    call<mysql_stmt_next_result_start, mysql_stmt_next_result_cont>(&number(), what_->handle());
    return true;
}

// Fetching.

bool fetching::advance() {
    MYSQL_STMT* of = on().latest()->handle();
    switch (phase_) {
        case phase::begin:
            phase_ = phase::fetched;
            call<mysql_stmt_fetch_start, mysql_stmt_fetch_cont>(&number(), of);
            return true;
        case phase::fetched: return on_fetched();
        case phase::next:
            if (number() != 0) fail_statement(of);
            on().note_reply();
            if (on().latest()->read_rows() == nullptr) return next_result();
            phase_ = phase::stored;
            call<mysql_stmt_store_result_start, mysql_stmt_store_result_cont>(&number(), of);
            return true;
        case phase::stored:
            if (number() != 0) fail_statement(of);
            return next_result();
    }
    return false;
}

bool fetching::on_fetched() {
    prepared& of = *on().latest();
    if (number() == MYSQL_NO_DATA) {
        note_end();
        return next_result();
    }
    if (number() != 0 && number() != MYSQL_DATA_TRUNCATED) fail_statement(of.handle());
    row_.emplace(of.reader()->names(), of.reader()->values());
    return false;
}

/// The library ignores the status that comes with the end of rows that it has not stored.
void fetching::note_end() {
    const unsigned char* end = handle()->net.read_pos;
    constexpr unsigned char end_of_rows = 0xfe;
    if (end == nullptr || end[0] != end_of_rows) return;
    handle()->server_status = static_cast<unsigned>(end[3]) | static_cast<unsigned>(end[4]) << 8;
    on().note_reply();
}

bool fetching::next_result() {
    MYSQL_STMT* of = on().latest()->handle();
    if (mysql_stmt_more_results(of) == 0) return false;
    phase_ = phase::next;
    call<mysql_stmt_next_result_start, mysql_stmt_next_result_cont>(&number(), of);
    return true;
}

}  // namespace cenote::mariadb::detail
