// Statements that are kept prepared: which of them, and when one is prepared anew or not used.
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

/// Names that mean a type of pg_catalog, whatever tables and schemas there are.
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

/// Reads a statement as far as to find its parameters.
class parameter_places {
public:
    explicit parameter_places(std::string_view text) : text_(text) {}

    /// False: there may be places that are not seen.
    bool read(std::vector<bool>& typed) {
        // Comments nest, dollar quotes have tags, and what a backslash means is a setting.
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
        if (is_bytes(p)) continue;  // its type is declared
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

/// What a server must be told apart: the same text with bytes in place of text is another one.
std::string key_with_types(std::string_view text, std::span<const sql::parameter> parameters) {
    std::string key(text);
    key.push_back('\0');
    for (const sql::parameter& p : parameters) key.push_back(is_bytes(p) ? 'b' : 't');
    return key;
}

}  // namespace

recurring::recurring(std::shared_ptr<session> with, std::string_view text,
                     std::span<const sql::parameter> parameters)
    : with_(std::move(with)), text_(text), parameters_(parameters) {
    begin();
}

void recurring::begin() {
    // Nothing of ours can be done in a transaction that has failed, but for its end.
    if (!with_->kept().on() || with_->transaction_failed()) return ask();
    if (!with_->reads_texts_as_ever() || with_->names_in_flux()) return ask();
    if (fitness_of(text_, parameters_, {}) != fitness::fits) return ask();
    key_ = text_;
    if (std::ranges::any_of(parameters_, is_bytes))
        key_ = own_key_ = key_with_types(text_, parameters_);
    if (kept_statement* known = with_->kept().find(key_)) return begin_known(*known);
    std::optional<kept_statement> gone = with_->kept().add(std::string(key_), {});
    if (gone && !gone->name.empty()) with_->forgotten().push_back(std::move(gone->name));
    ask();
}

void recurring::begin_known(kept_statement& known) {
    if (known.unfit) return ask();
    if (!known.name.empty()) {
        fitness fit = fitness_of(text_, parameters_, known.types);
        if (fit == fitness::fits) name_ = known.name;
        if (fit == fitness::outgrown) give_up_kept(known);
        return ask();
    }
    // A transaction has its own first statement: ours would be another.
    bool needs_look = !with_->direct() || !with_->knows_temporary();
    bool needs_more = needs_look || !with_->forgotten().empty();
    if (needs_more && with_->in_transaction()) return ask();
    if (with_->owes()) return pay();
    if (needs_look) return look();
    make_room_or_prepare();
}

/// Once in a while: what is said before a statement is prepared takes several conversations.
void recurring::pay() {
    phase_ = phase::paying;
    now_.emplace(with_, conversation::of::connector);
    now_->pay();
}

/// It may be prepared anew at its next run, with the types of then.
void recurring::give_up_kept(kept_statement& known) {
    with_->forgotten().push_back(std::move(known.name));
    known = {};
}

/// Compares the server's process number with the one libpq was told. A proxy reports another one.
void recurring::look() {
    phase_ = phase::looking;
    now_.emplace(with_, conversation::of::connector);
    now_->ask(
        "select pg_catalog.pg_backend_pid(), "
        "pg_catalog.pg_my_temp_schema() operator(pg_catalog.<>) 0",
        {});
}

/// All that have to go at once; or one by one, if the server does not know some of them.
void recurring::make_room_or_prepare() {
    std::vector<std::string>& forgotten = with_->forgotten();
    if (forgotten.empty()) return prepare();
    phase_ = phase::making_room;
    std::string texts;
    if (one_by_one_) {
        texts = "deallocate " + forgotten.back();
        forgotten.pop_back();
    } else {
        for (const std::string& name : forgotten) texts += "deallocate " + name + "; ";
    }
    now_.emplace(with_, conversation::of::connector);
    now_->ask_all(texts.c_str());
}

void recurring::prepare() {
    phase_ = phase::preparing;
    name_ = "cenote_kept_" + std::to_string(with_->next_statement());
    with_->note_kept();
    now_.emplace(with_, conversation::of::connector);
    now_->prepare(name_, text_, parameters_);
}

void recurring::ask() {
    phase_ = phase::asking;
    now_.emplace(with_, conversation::of::borrower);
    if (name_.empty()) return now_->ask(text_, parameters_);
    now_->ask_prepared(name_, parameters_);
    with_->note_words(text_);
}

void recurring::describe() {
    phase_ = phase::describing;
    now_.emplace(with_, conversation::of::connector);
    now_->describe(name_);
}

/// The types that the server has inferred decide whether the statement may be kept at all.
void recurring::note_types() {
    kept_statement* known = with_->kept().find(key_);
    if (known == nullptr) return;
    known->name = name_;
    known->types.clear();
    for (int i = 0; i < PQnparams(now_->reply()); ++i)
        known->types.push_back(PQparamtype(now_->reply(), i));
    fitness fit = fitness_of(text_, parameters_, known->types);
    if (fit == fitness::fits) return;
    name_.clear();
    give_up_kept(*known);
    known->unfit = fit == fitness::never;
}

need recurring::step() {
    for (;;) {
        try {
            need n = now_->step();
            if (n != need::nothing || !go_on()) return n;
        } catch (const statement_error& e) {
            if (!goes_on_after(e)) throw;
        }
    }
}

/// In a transaction a statement that is stale has failed with it.
bool recurring::goes_on_after(const statement_error& e) {
    constexpr std::string_view unknown = "26000";
    if (phase_ == phase::making_room && e.sqlstate() == unknown) {
        one_by_one_ = true;
        make_room_or_prepare();
        return true;
    }
    bool can_be_stale = phase_ == phase::asking || phase_ == phase::describing;
    if (!can_be_stale || name_.empty() || !now_->found_stale()) return false;
    if (e.sqlstate() != unknown) with_->forgotten().push_back(name_);
    name_.clear();
    if (kept_statement* known = with_->kept().find(key_)) *known = {};
    if (with_->in_transaction()) return false;
    // Not prepared: the table may change again meanwhile. It is at the next run.
    ask();
    return true;
}

/// A step has come to its end. False: that was all.
bool recurring::go_on() {
    switch (phase_) {
        case phase::paying: return begin(), true;
        case phase::looking:
            with_->note_process(now_->reply());
            with_->note_temporary(row_of(now_->reply(), 0).at(1).as<bool>());
            if (!*with_->direct()) with_->kept().turn_off();
            if (!with_->kept().on()) return ask(), true;
            return make_room_or_prepare(), true;
        case phase::making_room:
            if (!one_by_one_) with_->forgotten().clear();
            return make_room_or_prepare(), true;
        case phase::preparing: return describe(), true;
        case phase::describing: return note_types(), ask(), true;
        case phase::asking: break;
    }
    return false;
}

}  // namespace cenote::postgres::detail
