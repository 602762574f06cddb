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

/// What a column contains, and the server's name for it.
void describe(const MYSQL_FIELD& field, shape is, bool utc, sql::column_info& column) {
    using sql::column_type;
    auto put = [&](column_type type, const char* name) {
        column.type = type;
        column.type_name = name;
    };
    switch (is) {
        case shape::none: return put(column_type::any, "null");
        case shape::whole:
        case shape::bits:
            return put(column_type::integer,
                       (field.flags & UNSIGNED_FLAG) != 0 ? "unsigned integer" : "integer");
        case shape::single: return put(column_type::real, "float");
        case shape::real: return put(column_type::real, "double");
        case shape::bytes: return put(column_type::bytes, "binary");
        case shape::text:
        case shape::time: break;
    }
    switch (field.type) {
        case MYSQL_TYPE_DECIMAL:
        case MYSQL_TYPE_NEWDECIMAL: return put(column_type::decimal, "decimal");
        case MYSQL_TYPE_DATE:
        case MYSQL_TYPE_NEWDATE: return put(column_type::date, "date");
        case MYSQL_TYPE_TIME:
        case MYSQL_TYPE_TIME2: return put(column_type::time, "time");
        case MYSQL_TYPE_DATETIME:
        case MYSQL_TYPE_DATETIME2: return put(column_type::timestamp, "datetime");
        case MYSQL_TYPE_TIMESTAMP:
        case MYSQL_TYPE_TIMESTAMP2:
            return put(utc ? column_type::timestamp_tz : column_type::timestamp, "timestamp");
        default: return put(column_type::text, "text");
    }
}

sql::moment moment_of(const MYSQL_TIME& time, sql::column_type is, unsigned decimals) {
    constexpr unsigned not_fixed = 7;
    sql::moment m;
    m.is = is;
    m.negative = time.neg != 0;
    if (is != sql::column_type::time) {
        m.year = static_cast<int>(time.year);
        m.month = time.month;
        m.day = time.day;
    }
    m.hour = time.hour;
    m.minute = time.minute;
    m.second = time.second;
    m.microsecond = static_cast<unsigned>(time.second_part);
    m.digits = decimals < not_fixed ? decimals : m.microsecond == 0 ? 0 : 6;
    return m;
}

/// The content of a text or bytes in a row, which begins with its length.
const char* content_of(const unsigned char* field) {
    switch (*field) {
        case 252: field += 3; break;
        case 253: field += 4; break;
        case 254: field += 9; break;
        default: ++field; break;
    }
    return reinterpret_cast<const char*>(field);
}

MYSQL_TIME time_of(std::chrono::sys_days day) {
    std::chrono::year_month_day all(day);
    MYSQL_TIME t{};
    t.time_type = MYSQL_TIMESTAMP_DATE;
    t.year = static_cast<unsigned>(static_cast<int>(all.year()));
    t.month = static_cast<unsigned>(all.month());
    t.day = static_cast<unsigned>(all.day());
    return t;
}

void put_time(std::chrono::microseconds time, MYSQL_TIME& to) {
    std::chrono::hh_mm_ss<std::chrono::microseconds> all(time);
    to.neg = all.is_negative() ? 1 : 0;
    to.hour = static_cast<unsigned>(all.hours().count());
    to.minute = static_cast<unsigned>(all.minutes().count());
    to.second = static_cast<unsigned>(all.seconds().count());
    to.second_part = static_cast<unsigned long>(all.subseconds().count());
}

/// Whether the library takes it in another form.
bool is_converted(const sql::parameter& p) {
    return p.get().index() > 5;  // after the span of bytes
}
static_assert(std::is_same_v<std::variant_alternative_t<5, sql::parameter::data>,
                             std::span<const std::byte>>);

/// Binds a parameter. Refers to its value.
struct binder {
    MYSQL_BIND* to;
    bound_value* kept;  // for what the library does not take as it is; null if nothing is such

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
    void operator()(std::chrono::sys_days day) const {
        kept->time = time_of(day);
        refer(MYSQL_TYPE_DATE, &kept->time, sizeof kept->time);
    }
    void operator()(sql::detail::local_microseconds time) const {
        put_day_and_time(time.time_since_epoch());
    }
    void operator()(sql::detail::sys_microseconds time) const {
        put_day_and_time(time.time_since_epoch());
    }
    void operator()(std::chrono::microseconds time) const {
        kept->time = {};
        kept->time.time_type = MYSQL_TIMESTAMP_TIME;
        put_time(time, kept->time);
        refer(MYSQL_TYPE_TIME, &kept->time, sizeof kept->time);
    }
    void operator()(const sql::uuid& id) const { (*this)(sql::detail::text_of(id, kept->text)); }
    void operator()(const sql::detail::array_view&) const {}  // refused before

private:
    void put_day_and_time(std::chrono::microseconds since) const {
        auto day = std::chrono::floor<std::chrono::days>(since);
        kept->time = time_of(std::chrono::sys_days(day));
        kept->time.time_type = MYSQL_TIMESTAMP_DATETIME;
        put_time(since - day, kept->time);
        refer(MYSQL_TYPE_DATETIME, &kept->time, sizeof kept->time);
    }
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
    unsigned decimals = 0;
    my_bool null = 0;
    my_bool cut = 0;
    unsigned long length = 0;
    std::int64_t whole = 0;
    float single = 0;
    double real = 0;
    MYSQL_TIME time{};
    sql::moment moment;

    MYSQL_BIND place(enum_field_types type) {
        MYSQL_BIND b{};
        b.length = &length;
        b.is_null = &null;
        b.error = &cut;
        b.is_unsigned = is_unsigned ? 1 : 0;
        auto put = [&](enum_field_types as, void* where, unsigned long size) {
            b.buffer_type = as;
            b.buffer = where;
            b.buffer_length = size;
        };
        switch (is) {
            case shape::whole: put(MYSQL_TYPE_LONGLONG, &whole, sizeof whole); break;
            case shape::single: put(MYSQL_TYPE_FLOAT, &single, sizeof single); break;
            case shape::real: put(MYSQL_TYPE_DOUBLE, &real, sizeof real); break;
            case shape::time: put(type, &time, sizeof time); break;
            case shape::none: put(MYSQL_TYPE_NULL, nullptr, 0); break;
            // The library reports the length, and where the content is in the row.
            case shape::bits:
            case shape::text:
            case shape::bytes: put(MYSQL_TYPE_BLOB, nullptr, 0); break;
        }
        return b;
    }
};

row_reader::row_reader(MYSQL_STMT* of, bool utc)
    : of_(of),
      described_(mysql_stmt_result_metadata(of), &mysql_free_result),
      columns_(mysql_stmt_field_count(of)),
      infos_(columns_.size()),
      cells_(columns_.size()) {
    if (described_ == nullptr) throw std::bad_alloc();
    const MYSQL_FIELD* fields = mysql_fetch_fields(described_.get());
    std::vector<MYSQL_BIND> places;
    places.reserve(columns_.size());
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        infos_[i].name = {fields[i].name, fields[i].name_length};
        columns_[i].is = shape_of(fields[i]);
        describe(fields[i], columns_[i].is, utc, infos_[i]);
        columns_[i].is_unsigned = (fields[i].flags & UNSIGNED_FLAG) != 0;
        columns_[i].decimals = fields[i].decimals;
        bool day = infos_[i].type == sql::column_type::date;
        bool time = infos_[i].type == sql::column_type::time;
        places.push_back(columns_[i].place(day    ? MYSQL_TYPE_DATE
                                           : time ? MYSQL_TYPE_TIME
                                                  : MYSQL_TYPE_DATETIME));
    }
    if (mysql_stmt_bind_result(of, places.data()) != 0) throw std::bad_alloc();
}

row_reader::~row_reader() = default;

std::span<const sql::cell> row_reader::cells() {
    memory_ = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        cells_[i] = cell_of(i);
        const shape is = columns_[i].is;
        if (columns_[i].null == 0 && (is == shape::text || is == shape::bytes))
            memory_ += columns_[i].length;
    }
    return cells_;
}

sql::cell row_reader::cell_of(std::size_t number) {
    column& c = columns_[number];
    if (c.null != 0) return {};
    auto content = [&] { return content_of(of_->bind[number].u.row_ptr); };
    switch (c.is) {
        case shape::none: break;
        case shape::whole:
            if (c.is_unsigned)
                return sql::cell::unsigned_integer(static_cast<std::uint64_t>(c.whole));
            return sql::cell(c.whole);
        case shape::single: return sql::cell(static_cast<double>(c.single));
        case shape::real: return sql::cell(c.real);
        case shape::time:
            c.moment = moment_of(c.time, infos_[number].type, c.decimals);
            return sql::cell(c.moment);
        case shape::bits: {
            std::uint64_t all = 0;
            if (c.length > sizeof all) break;  // no type of MariaDB
            const char* octets = content();
            for (std::size_t i = 0; i < c.length; ++i)
                all = all << 8 | static_cast<unsigned char>(octets[i]);
            return sql::cell::unsigned_integer(all);
        }
        case shape::text: return sql::cell(std::string_view(content(), c.length));
        case shape::bytes: return sql::cell(std::as_bytes(std::span(content(), c.length)));
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

row_reader* prepared::read_rows(bool utc) {
    reader_.reset();
    if (mysql_stmt_field_count(handle_) != 0) reader_ = std::make_unique<row_reader>(handle_, utc);
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
    bound_.clear();
    if (std::ranges::any_of(parameters, is_converted)) bound_.resize(parameters.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        bound_value* kept = bound_.empty() ? nullptr : &bound_[i];
        std::visit(binder{&places[i], kept}, parameters[i].get());
    }
    if (mysql_stmt_bind_param(handle_, places.data()) != 0) throw std::bad_alloc();
}

// Executing.

void refuse_parameters(std::span<const sql::parameter> parameters, bool utc) {
    sql::detail::refuse_named(parameters);
    for (const sql::parameter& p : parameters) {
        if (std::holds_alternative<sql::detail::array_view>(p.get()))
            throw std::invalid_argument("cenote: MariaDB has no arrays: bind one value each");
        if (!utc && std::holds_alternative<sql::detail::sys_microseconds>(p.get()))
            throw std::invalid_argument(
                "cenote: MariaDB has no type for an instant: bind a local_time, or set the option "
                "timezone to +00:00");
    }
}

executing::executing(session& on, std::string_view text, std::span<const sql::parameter> parameters,
                     extent how_far, sql::row_sink* to)
    : conversation(on), text_(text), parameters_(parameters), extent_(how_far), to_(to) {
    refuse_parameters(parameters, on.in_utc());
    cancel_if_abandoned();
    on.note_statement(text);
}

executing::executing(session& on, prepared& what, std::span<const sql::parameter> parameters,
                     sql::row_sink* to)
    : conversation(on), what_(&what), parameters_(parameters), phase_(phase::prepared), to_(to) {
    refuse_parameters(parameters, on.in_utc());
    cancel_if_abandoned();
    on.note_statement({});
}

bool executing::advance() {
    switch (phase_) {
        case phase::begin:
            if (!on().reset_pending())
                if (std::unique_ptr<prepared> one = on().take_closable()) {
                    call<mysql_stmt_close_start, mysql_stmt_close_cont>(&flag(), one->release());
                    return true;
                }
            if (on().reset_pending() || on().setup_goes_ahead()) {
                on().begin_preface();
                with_reset() = true;
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

/// The statement is executed only if the reset and the setup in front of its PREPARE have
/// succeeded.
void executing::check_preface() {
    const preface& ahead = on().reads().ahead();
    if (ahead.refused()) fail_reset(ahead.code(), ahead.sqlstate(), ahead.text());
    if (ahead.is_open()) {
        if (number() == 0) fail_reset(0, "", "the server has not replied to it");
        return;
    }
    if (on().reset_pending()) on().note_pending_reset_done();
    if (!on().preface_has_setup()) return;
    if (!ahead.last_failed()) return on().note_setup_done();
    const bool lost = number() != 0 && is_client_error(mysql_stmt_errno(what_->handle()));
    if (!lost) fail_setup(ahead.code(), ahead.sqlstate(), ahead.text());
}

bool executing::execute() {
    if (with_reset()) check_preface();
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
    row_reader* rows = what_->read_rows(on().in_utc());
    on().note_found_rows(*what_);
    if (rows == nullptr) {
        std::uint64_t last_id = mysql_stmt_insert_id(what_->handle());
        affected_ = mysql_stmt_affected_rows(what_->handle());
        last_id_ = static_cast<std::int64_t>(last_id);
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
    affected_ = 0;
    last_id_ = 0;
    to_->begin(what_->reader()->columns(), mysql_stmt_num_rows(what_->handle()));
    phase_ = phase::copying;
    return true;
}

/// Converts the rows that the library has stored, as many as one step may.
bool executing::copy() {
    constexpr std::size_t min_row_work = 256;
    row_reader& rows = *what_->reader();
    const std::size_t fixed = to_->bytes_per_row(rows.columns().size());
    for (std::size_t done = 0; done < connector_detail::max_bytes_per_step;) {
        int got = mysql_stmt_fetch(what_->handle());
        if (got == MYSQL_NO_DATA) return phase_ = phase::next, true;
        if (got != 0 && got != MYSQL_DATA_TRUNCATED) fail_statement(what_->handle());
        std::span<const sql::cell> cells = rows.cells();
        done += min_row_work + rows.memory();
        memory_ += fixed + rows.memory();
        if (memory_ > max_bytes()) refuse_length();
        to_->row(cells);
    }
    yield();
    return true;
}

bool executing::next_result() {
    if (mysql_stmt_more_results(what_->handle()) == 0) {
        mysql_stmt_free_result(what_->handle());
        what_->forget_rows();
        if (to_ == nullptr) return false;
        if (!has_result_) to_->begin({}, 0);
        to_->note_affected(affected_, last_id_);
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
            if (on().latest()->read_rows(on().in_utc()) == nullptr) return next_result();
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
    bool ended = number() == MYSQL_NO_DATA;
    if (!ended && number() != 0 && number() != MYSQL_DATA_TRUNCATED) fail_statement(of.handle());
    if (!to_->begun()) to_->begin(of.reader()->columns(), 0);
    if (ended) {
        note_end();
        return next_result();
    }
    to_->row(of.reader()->cells());
    has_row_ = true;
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
