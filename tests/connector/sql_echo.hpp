// The requests of an identity echo to SQL servers. Servers differ in their statements; a dialect
// has
//
//   connection, statement, cursor
//   echo     returns its parameter
//   many     returns it 20 times, numbered
//   leave    keeps its parameter in the session
//   whose    returns its parameter, and what was kept or ''
//   forget   drops what was kept
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <string>

#include "cenote/sql.hpp"
#include "connector/echo_book.hpp"

namespace echo {

template <class Dialect>
class sql_asker : public Dialect {
public:
    using typename Dialect::connection;
    using typename Dialect::statement;

    void ask(connection& c, book& b, dice& d) {
        // An earlier lease must have left nothing.
        ask_whose(c, b, "");
        statement made = c.prepare(Dialect::echo);
        for (auto i = d() % 40; i > 0; --i) {
            if (!b.calm && d() % 500 == 0) c.set_timeout(std::chrono::microseconds(d() % 1000));
            ask_one(c, made, b, d);
        }
        if (d() % 4 != 0) return;
        std::string left = b.word();
        c.execute(Dialect::leave, left);
        ask_whose(c, b, left);
    }

    boost::asio::awaitable<void> ask_awaited(connection* c, book* b, dice* d) {
        std::string word = b->word();
        cenote::sql::result found = co_await c->async_execute(Dialect::whose, word);
        compare(found, *b, word, "");
        statement made = co_await c->async_prepare(Dialect::echo);
        for (auto i = (*d)() % 40; i > 0; --i) co_await ask_one_awaited(c, &made, b, d);
        if ((*d)() % 4 == 0) co_await c->async_execute(Dialect::leave, word);
    }

private:
    static void compare(const cenote::sql::result& got, book& b, const std::string& word,
                        const std::string& left) {
        b.compare(got[0].get<std::string>(0), word);
        if (got[0].get<std::string>(1) != left) ++b.inherited;
    }

    static void ask_whose(connection& c, book& b, const std::string& left) {
        std::string word = b.word();
        compare(c.execute(Dialect::whose, word), b, word, left);
    }

    /// One of several ways. Mostly the prepared statement, since it is the fastest.
    static void ask_one(connection& c, const statement& made, book& b, dice& d) {
        auto way = d() % 64;
        if (way == 0) return stream(c, b);
        if (way == 1) return leave_and_forget(c, b);
        if (way == 2) c.execute("begin");  // and left so
        std::string word = b.word();
        cenote::sql::result got = way < 8 ? c.execute(Dialect::echo, word) : c.execute(made, word);
        b.compare(got.scalar<std::string>(), word);
    }

    static void leave_and_forget(connection& c, book& b) {
        std::string left = b.word();
        c.execute(Dialect::leave, left);
        ask_whose(c, b, left);
        c.execute(Dialect::forget);
    }

    static void stream(connection& c, book& b) {
        std::string word = b.word();
        typename Dialect::cursor rows = c.stream(Dialect::many, word);
        int seen = 0;
        bool same = true;
        while (auto row = rows.next())
            same &= row->template get<std::string>(0) == word + std::to_string(++seen);
        b.compare(same && seen == 20);
    }

    static boost::asio::awaitable<void> ask_one_awaited(connection* c, const statement* made,
                                                        book* b, dice* d) {
        auto way = (*d)() % 64;
        if (way == 0) {
            co_await stream_awaited(c, b);
            co_return;
        }
        std::string word = b->word();
        cenote::sql::result got;
        if (way < 8) got = co_await c->async_execute(Dialect::echo, word);
        else got = co_await c->async_execute(*made, word);
        b->compare(got.scalar<std::string>(), word);
    }

    static boost::asio::awaitable<void> stream_awaited(connection* c, book* b) {
        std::string word = b->word();
        typename Dialect::cursor rows = co_await c->async_stream(Dialect::many, word);
        int seen = 0;
        bool same = true;
        for (;;) {
            auto row = co_await rows.async_next();
            if (!row) break;
            same &= row->template get<std::string>(0) == word + std::to_string(++seen);
        }
        b->compare(same && seen == 20);
    }
};

}  // namespace echo
