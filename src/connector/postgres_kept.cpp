// Kept statements: which are prepared, when one is prepared again, and when one is not used.
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <utility>

#include "connector/postgres_session.hpp"

namespace cenote::postgres::detail {

// Types.

namespace {

bool is_bytes(const sql::parameter& p) {
    return std::holds_alternative<std::span<const std::byte>>(p.get());
}

/// Whether libpq_parameters declares its type, so that the server infers none.
bool is_declared(const sql::parameter& p) {
    return is_bytes(p) || std::holds_alternative<sql::detail::sys_microseconds>(p.get());
}

bool is_whole_or_null(const sql::parameter& p) {
    return std::holds_alternative<std::int64_t>(p.get()) ||
           std::holds_alternative<std::monostate>(p.get());
}

bool is_whole(Oid type) { return type == oid_int2 || type == oid_int4 || type == oid_int8; }

template <class Whole>
bool in_range_of(std::int64_t n) {
    return n >= std::numeric_limits<Whole>::min() && n <= std::numeric_limits<Whole>::max();
}

bool in_range(const sql::parameter& p, Oid type) {
    const auto* n = std::get_if<std::int64_t>(&p.get());
    if (n == nullptr || type == oid_int8) return true;
    return type == oid_int4 ? in_range_of<std::int32_t>(*n) : in_range_of<std::int16_t>(*n);
}

bool in_name(char c) {
    auto u = static_cast<unsigned char>(c);
    return u >= 0x80 || std::isalnum(u) != 0 || c == '_' || c == '$';
}

/// Names that mean a type of pg_catalog in any schema.
bool is_builtin_type(std::string_view name) {
    constexpr std::array<std::string_view, 32> known{
        "bigint",    "bool",        "boolean", "bpchar", "bytea",    "char",     "character",
        "date",      "decimal",     "double",  "float",  "float4",   "float8",   "inet",
        "int",       "int2",        "int4",    "int8",   "integer",  "interval", "json",
        "jsonb",     "numeric",     "oid",     "real",   "smallint", "text",     "time",
        "timestamp", "timestamptz", "uuid",    "varchar"};
    std::string lower(name);
    for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return std::ranges::find(known, lower) != known.end();
}

/// Finds the parameters in the text of a statement.
class parameter_places {
public:
    explicit parameter_places(std::string_view text) : text_(text) {}

    /// False: it may have missed places.
    bool read(std::vector<bool>& typed) {
        // Comments nest, dollar quotes have tags, and a setting decides what a backslash means.
        for (std::string_view hard : {"\\", "--", "/*"})
            if (text_.find(hard) != text_.npos) return false;
        while (at_ < text_.size()) {
            char c = text_[at_];
            if (c == '\'' || c == '"') {
                at_ = text_.find(c, at_ + 1);
                if (at_ == text_.npos) return false;
                ++at_;
            } else if (c == '$') {
                if (!read_parameter(typed)) return false;
            } else if (in_name(c)) {
                skip_name();
            } else {
                ++at_;
            }
        }
        return true;
    }

private:
    bool read_parameter(std::vector<bool>& typed) {
        const char* first = text_.data() + at_ + 1;
        std::size_t number = 0;
        auto [end, error] = std::from_chars(first, text_.data() + text_.size(), number);
        if (error != std::errc{}) return false;
        at_ += 1 + static_cast<std::size_t>(end - first);
        bool cast = reads_cast();
        if (number >= 1 && number <= typed.size() && !cast) typed[number - 1] = false;
        return true;
    }
    bool reads_cast() {
        skip_space();
        if (!text_.substr(at_).starts_with("::")) return false;
        at_ += 2;
        skip_space();
        std::size_t from = at_;
        skip_name();
        std::string_view name = text_.substr(from, at_ - from);
        skip_space();
        bool schema = at_ < text_.size() && text_[at_] == '.';
        return !schema && is_builtin_type(name);
    }
    void skip_space() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0)
            ++at_;
    }
    void skip_name() {
        while (at_ < text_.size() && in_name(text_[at_])) ++at_;
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

}  // namespace

std::vector<bool> typed_by_text(std::string_view text, std::size_t count) {
    std::vector<bool> typed(count, true);
    if (!parameter_places(text).read(typed)) typed.assign(count, false);
    return typed;
}

fitness fitness_of(std::string_view text, std::span<const sql::parameter> parameters,
                   std::span<const Oid> types) {
    std::optional<std::vector<bool>> typed;
    fitness all = fitness::fits;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const sql::parameter& p = parameters[i];
        if (is_declared(p)) continue;
        bool whole = is_whole_or_null(p);
        bool of_whole = types.size() <= i || is_whole(types[i]);
        if (whole && of_whole && (types.size() <= i || in_range(p, types[i]))) continue;
        if (!typed) typed = typed_by_text(text, parameters.size());
        if ((*typed)[i]) continue;
        all = std::max(all, !whole     ? fitness::not_for_these
                            : of_whole ? fitness::outgrown
                                       : fitness::never);
    }
    return all;
}

// Statements.

namespace {

/// To the server, a text with bytes or an instant as a parameter is another statement than with
/// text.
std::string key_with_types(std::string_view text, std::span<const sql::parameter> parameters) {
    std::string key(text);
    key.push_back('\0');
    for (const sql::parameter& p : parameters)
        key.push_back(is_bytes(p) ? 'b' : is_declared(p) ? 'z' : 't');
    return key;
}

}  // namespace

kept_execution::kept_execution(std::shared_ptr<session> with, std::string_view text,
                               std::span<const sql::parameter> parameters)
    : sequence(std::move(with)), text_(text), parameters_(parameters) {
    begin_execution();
}

void kept_execution::begin_execution() {
    // In a failed transaction the server accepts only its end.
    if (!with().kept().on() || with().transaction_failed()) return execute();
    if (!with().parse_settings_unchanged() || with().names_in_flux()) return execute();
    if (connector_detail::has_trace_comment(text_)) return execute();
    if (fitness_of(text_, parameters_, {}) != fitness::fits) return execute();
    key_ = text_;
    if (std::ranges::any_of(parameters_, is_declared))
        key_ = own_key_ = key_with_types(text_, parameters_);
    if (kept_statement* known = with().kept().find(key_)) return begin_known(*known);
    std::optional<kept_statement> gone = with().kept().add(std::string(key_), {});
    if (gone && !gone->name.empty()) with().evicted().push_back(std::move(gone->name));
    execute();
}

void kept_execution::begin_known(kept_statement& known) {
    if (known.unfit) return execute();
    if (!known.name.empty()) {
        fitness fit = fitness_of(text_, parameters_, known.types);
        if (fit == fitness::fits) name_ = known.name;
        if (fit == fitness::outgrown) evict(known);
        return execute();
    }
    // The connector's statements must not become the first of the borrower's transaction.
    bool needs_check = !with().direct() || !with().knows_temporary();
    bool needs_more = needs_check || !with().evicted().empty();
    if (needs_more && with().in_transaction()) return execute();
    if (with().reset_pending() || with().setup_pending()) return reset();
    if (needs_check) return check_session();
    deallocate_or_prepare();
}

/// Preparing takes several conversations, so the pending reset and setup are one, too. Happens
/// rarely. The statement is prepared in the role in which it will run.
void kept_execution::reset() {
    phase_ = phase::resetting;
    begin(conversation::origin::connector).set_up();
}

/// The next run may prepare the statement again, with the types of that time.
void kept_execution::evict(kept_statement& known) {
    with().evicted().push_back(std::move(known.name));
    known = {};
}

/// Compares the server's process number with the one that libpq was told. A proxy reports another
/// number.
void kept_execution::check_session() {
    phase_ = phase::checking;
    begin(conversation::origin::connector)
        .query(
            "select pg_catalog.pg_backend_pid(), "
            "pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0",
            {});
}

/// Deallocates all evicted statements at once; one by one if the server does not know some of them.
void kept_execution::deallocate_or_prepare() {
    std::vector<std::string>& evicted = with().evicted();
    if (evicted.empty()) return prepare();
    phase_ = phase::deallocating;
    std::string script;
    if (one_by_one_) {
        script = "deallocate " + evicted.back();
        evicted.pop_back();
    } else {
        for (const std::string& name : evicted) script += "deallocate " + name + "; ";
    }
    begin(conversation::origin::connector).run(script.c_str());
}

void kept_execution::prepare() {
    phase_ = phase::preparing;
    name_ = "cenote_kept_" + std::to_string(with().next_statement());
    with().note_kept();
    begin(conversation::origin::connector).prepare(name_, text_, parameters_);
}

void kept_execution::execute() {
    phase_ = phase::executing;
    conversation& request = begin(conversation::origin::borrower);
    if (name_.empty()) return request.query(text_, parameters_);
    request.execute(name_, parameters_);
    with().note_text(text_);
}

void kept_execution::describe() {
    phase_ = phase::describing;
    begin(conversation::origin::connector).describe(name_);
}

/// The types that the server has inferred decide whether the statement may be kept at all.
void kept_execution::note_types() {
    kept_statement* known = with().kept().find(key_);
    if (known == nullptr) return;
    known->name = name_;
    known->types.clear();
    for (int i = 0; i < PQnparams(reply()); ++i) known->types.push_back(PQparamtype(reply(), i));
    fitness fit = fitness_of(text_, parameters_, known->types);
    if (fit == fitness::fits) return;
    name_.clear();
    evict(*known);
    known->unfit = fit == fitness::never;
}

/// In a transaction a stale statement has failed for good, and the transaction with it.
bool kept_execution::recover(const statement_error& e) {
    constexpr std::string_view unknown = "26000";
    if (phase_ == phase::deallocating && e.sqlstate() == unknown) {
        one_by_one_ = true;
        deallocate_or_prepare();
        return true;
    }
    bool can_be_stale = phase_ == phase::executing || phase_ == phase::describing;
    if (!can_be_stale || name_.empty() || !now().found_stale()) return false;
    if (e.sqlstate() != unknown) with().evicted().push_back(name_);
    name_.clear();
    if (kept_statement* known = with().kept().find(key_)) *known = {};
    if (with().in_transaction()) return false;
    // Not prepared again before the next run: the table may still be changing.
    execute();
    return true;
}

bool kept_execution::advance() {
    switch (phase_) {
        case phase::resetting: return begin_execution(), true;
        case phase::checking:
            with().note_process(reply());
            with().note_temporary(row_of(reply(), 0).at(1).as<bool>());
            if (!*with().direct()) with().kept().turn_off();
            if (!with().kept().on()) return execute(), true;
            return deallocate_or_prepare(), true;
        case phase::deallocating:
            if (!one_by_one_) with().evicted().clear();
            return deallocate_or_prepare(), true;
        case phase::preparing: return describe(), true;
        case phase::describing: return note_types(), execute(), true;
        case phase::executing: break;
    }
    return false;
}

}  // namespace cenote::postgres::detail
