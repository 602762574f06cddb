// Statements that carry the traceparent of their request to the server, as a comment. The server is
// asked for the text of the statement that asks.
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/database.hpp"
#include "connector/mariadb_place.hpp"
#include "connector/postgres_place.hpp"
#include "connector/sqlite_file.hpp"
#include "database/forms.hpp"
#include "support/patient.hpp"

namespace cenote::conformance {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

struct postgres_place {
    static std::string url() { return support::postgres_url(); }
    /// Returns the text of this very statement.
    static constexpr const char* own_text =
        "SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    static constexpr const char* insert_own_text =
        "INSERT INTO seen VALUES ((SELECT query FROM pg_stat_activity WHERE pid = "
        "pg_backend_pid()), ?)";
    /// The text of a statement of another session.
    static constexpr const char* text_of_copy =
        "SELECT query FROM pg_stat_activity WHERE query LIKE 'COPY seen %'";
};
struct mariadb_place {
    static std::string url() { return support::mariadb_url(); }
    static constexpr const char* own_text =
        "SELECT info FROM information_schema.processlist WHERE id = CONNECTION_ID()";
    static constexpr const char* insert_own_text =
        "INSERT INTO seen VALUES ((SELECT info FROM information_schema.processlist WHERE id = "
        "CONNECTION_ID()), ?)";
};

/// For many rows and batches, in both forms.
struct traces_blocking : blocking {
    static void many(auto& on, const std::string& text, const std::vector<int>& rows) {
        on.execute_many(text, rows);
    }
    static std::vector<sql::result> batch(auto& on, const sql::batch& all) {
        return on.execute(all);
    }
};
struct traces_awaited : awaited {
    static void many(auto& on, const std::string& text, const std::vector<int>& rows) {
        await_on(loop(0), on.async_execute_many(text, rows));
    }
    static std::vector<sql::result> batch(auto& on, const sql::batch& all) {
        return await_on(loop(0), on.async_execute(all));
    }
};

const trace_context sampled = {.trace_id = {0x4b, 0xf9}, .span_id = {0xf0, 0x67}, .flags = 1};

database opened(const std::string& url, bool comments) {
    return database(url, {.pool = support::patient(2), .trace_comments = comments});
}

template <class Kind>
struct traced : testing::Test {
    static constexpr const char* own_text = Kind::place::own_text;

    traced() {
        db.execute("DROP TABLE IF EXISTS seen");
        db.execute("CREATE TABLE seen (text VARCHAR(1000), number INTEGER)");
    }

    static std::string text_of(auto& on, const std::string& text = own_text) {
        return Kind::form::run(on, text).template scalar<std::string>();
    }

    database db = opened(Kind::place::url(), true);
    const std::string comment = ' ' + sampled.sql_comment();
    database_view view = db.with({.trace = sampled});
};
using both =
    testing::Types<kind<postgres_place, traces_blocking>, kind<postgres_place, traces_awaited>,
                   kind<mariadb_place, traces_blocking>, kind<mariadb_place, traces_awaited>>;
TYPED_TEST_SUITE(traced, both);

TYPED_TEST(traced, statements_have_the_comment) {
    using form = typename TypeParam::form;
    const std::string expected = this->own_text + this->comment;
    EXPECT_EQ(this->text_of(this->view), expected);
    EXPECT_EQ(this->text_of(this->view), expected) << "again, when it could have been kept";
    std::vector<std::string> mapped =
        form::template query_as<std::string>(this->view, std::string(this->own_text));
    EXPECT_THAT(mapped, testing::ElementsAre(expected));
    {
        sql::cursor rows = form::stream(this->view, this->own_text);
        EXPECT_EQ(form::next(rows)->template get<std::string>(0), expected);
    }
    auto with_value = form::run(this->view, this->own_text + std::string(" AND 1 = ?"), 1);
    EXPECT_THAT(with_value.template scalar<std::string>(), EndsWith(this->comment));
}

TYPED_TEST(traced, statements_of_scopes_and_transactions_have_the_comment) {
    using form = typename TypeParam::form;
    const std::string expected = this->own_text + this->comment;
    auto s = this->view.scope();
    EXPECT_EQ(this->text_of(s), expected);
    transaction t = form::begin(s);
    EXPECT_EQ(this->text_of(t), expected);
    form::commit(t);
    transaction alone = form::begin(this->view);
    EXPECT_EQ(this->text_of(alone), expected);
    form::rollback(alone);
}

TYPED_TEST(traced, many_rows_and_batches_have_the_comment) {
    using form = typename TypeParam::form;
    form::many(this->view, TypeParam::place::insert_own_text, {1, 2, 3});
    auto all = form::run(this->db, "SELECT text FROM seen");
    EXPECT_EQ(all.size(), 3u);
    for (const std::string& text : all.template as<std::string>())
        EXPECT_THAT(text, EndsWith(this->comment));
    sql::batch batch;
    batch.add(this->own_text).add(this->own_text + std::string(" AND 2 = ?"), 2);
    std::vector<sql::result> results = form::batch(this->view, batch);
    ASSERT_EQ(results.size(), 2u);
    for (const sql::result& each : results)
        EXPECT_THAT(each.scalar<std::string>(), EndsWith(this->comment));
}

/// A statement means the same with the comment, also if it ends with one of its own.
TYPED_TEST(traced, statements_keep_their_meaning) {
    using form = typename TypeParam::form;
    for (const char* text : {"SELECT 7;", "SELECT 7 ;\n", "SELECT 7 -- a remark",
                             "SELECT 7 /* a remark */", "SELECT 7 /* it's */", "SELECT 7 AS \"*/\"",
                             "SELECT 7 FROM (SELECT 1) AS t WHERE '/*' <> ''",
                             "SELECT 7 FROM (SELECT 1) AS t WHERE '*/' <> '--'"})
        EXPECT_EQ(form::run(this->view, text).template scalar<int>(), 7) << text;
    for (const char* text : {"SELECT 'open", "SELECT \"open", "SELECT 7 +"}) {
        EXPECT_THROW(form::run(this->db, text), std::exception) << text;
        EXPECT_THROW(form::run(this->view, text), std::exception) << text;
    }
    EXPECT_EQ(form::run(this->view, "SELECT ? + 1", 6).template scalar<int>(), 7);
}

TYPED_TEST(traced, only_sampled_traces_have_the_comment) {
    EXPECT_EQ(this->text_of(this->db), this->own_text);
    trace_context unsampled = sampled;
    unsampled.flags = 0;
    database_view quiet = this->db.with({.trace = unsampled});
    EXPECT_EQ(this->text_of(quiet), this->own_text);
    trace_context half = sampled;
    half.span_id = {};
    database_view no_span = this->db.with({.trace = half});
    EXPECT_EQ(this->text_of(no_span), this->own_text);
}

TYPED_TEST(traced, the_comment_is_off_by_default) {
    database plain{TypeParam::place::url(), {.pool = support::patient(1)}};
    database_view seen = plain.with({.trace = sampled});
    EXPECT_EQ(this->text_of(seen), this->own_text);
    database_view by_acquire = plain.with(acquire_options{.trace = sampled});
    EXPECT_EQ(this->text_of(by_acquire), this->own_text);
    by_acquire = this->db.with(acquire_options{.trace = sampled});
    EXPECT_EQ(this->text_of(by_acquire), this->own_text + this->comment);
}

/// With the setup of a tenant, which goes in front of the first statement.
TYPED_TEST(traced, statements_with_a_setup_have_the_comment) {
    database_view tenant =
        this->db.with({.statement_timeout = std::chrono::seconds(100), .trace = sampled});
    EXPECT_EQ(this->text_of(tenant), this->own_text + this->comment);
    EXPECT_EQ(this->text_of(tenant), this->own_text + this->comment);
    EXPECT_EQ(this->text_of(this->db), this->own_text);
}

TEST(traced_copy, has_the_comment) {
    database db = opened(postgres_place::url(), true);
    db.execute("DROP TABLE IF EXISTS seen");
    db.execute("CREATE TABLE seen (text VARCHAR(1000), number INTEGER)");
    const std::string comment = ' ' + sampled.sql_comment();
    database_view view = db.with({.trace = sampled});
    {
        sql::copy_out out =
            view.copy_out("COPY (" + std::string(postgres_place::own_text) + ") TO STDOUT");
        EXPECT_THAT(std::string(*out.next()), HasSubstr(comment));
        EXPECT_EQ(out.next(), std::nullopt);
    }
    sql::copy_in in = view.copy_in("COPY seen FROM STDIN");
    EXPECT_THAT(db.query(postgres_place::text_of_copy).scalar<std::string>(), EndsWith(comment));
    in.finish();
}

/// The way that keeps the statement cache: the name of the application goes with the setup of the
/// lease, and the statements are those that are always run.
TEST(traced_application, is_a_setting_of_the_lease) {
    database db = opened(postgres_place::url(), false);
    const std::string name = sampled.traceparent();
    EXPECT_LT(name.size(), 64u) << "PostgreSQL cuts longer names";
    const std::string usual = db.query("SHOW application_name").scalar<std::string>();
    database_view view = db.with({.settings = {{"application_name", name}}, .trace = sampled});
    for (int i = 0; i < 3; ++i)
        EXPECT_EQ(view.query("SELECT application_name FROM pg_stat_activity WHERE pid = "
                             "pg_backend_pid()")
                      .scalar<std::string>(),
                  name);
    EXPECT_EQ(db.query("SHOW application_name").scalar<std::string>(), usual);
}

TEST(traced_sqlite, has_no_server_that_could_show_a_comment) {
    support::sqlite_file file;
    database db{file.url(), {.pool = support::patient(1), .trace_comments = true}};
    database_view view = db.with({.trace = sampled});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(view.query("SELECT 7").scalar<int>(), 7);
    auto s = view.scope();
    EXPECT_EQ(s.query("SELECT ? + 1", 6).scalar<int>(), 7);
}

}  // namespace
}  // namespace cenote::conformance
