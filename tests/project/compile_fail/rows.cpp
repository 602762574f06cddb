// Rows that cannot be read, and what the compiler says. The sentence must be near the top.
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>

#include "cenote/database.hpp"

struct base {
    int id;
};
struct derived : base {
    int more;
};
struct with_array {
    int id;
    char name[8];
};
class closed {
public:
    int id() const { return id_; }

private:
    int id_ = 0;
};
struct inner {
    int a;
    int b;
};
struct outer {
    int id;
    inner more;
};
struct borrowed {
    std::string_view name;
};
struct misnamed {
    int id;
    std::string name;
    static constexpr std::array column_names{"id"};
};

void rows(cenote::database& db) {
    db.query_as<std::tuple<int, std::string>>("SELECT id, name FROM t");
    db.stream_as<borrowed>("SELECT name FROM t");
#if CENOTE_MISTAKE == 1  // expect within 30: the fields of a struct with a base class
    db.query_as<derived>("SELECT id, more FROM t");
#elif CENOTE_MISTAKE == 2  // expect within 30: a struct with a C array cannot be read from a row
    db.query_as<with_array>("SELECT id, name FROM t");
#elif CENOTE_MISTAKE == 3  // expect within 30: it is no aggregate, and neither
    db.query_as<closed>("SELECT id FROM t");
#elif CENOTE_MISTAKE == 4  // expect within 30: a column cannot be read as the type of this field
    db.query_as<outer>("SELECT id, more FROM t");
#elif CENOTE_MISTAKE == 5  // expect within 30: would outlive its row
    db.query_as<borrowed>("SELECT name FROM t");
#elif CENOTE_MISTAKE == 6  // expect within 30: column_names must have one name for each field
    db.query_as<misnamed>("SELECT id, name FROM t");
#endif
}
