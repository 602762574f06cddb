// Members of a connector with misspelt names, or that take a copy.
#include <utility>

#include <cenote/pool.hpp>

struct session {
    session() = default;
    session(session&&) = default;
};

struct connector {
    session open() { return {}; }
#if CENOTE_MISTAKE == 1  // expect within 12: the connector's resset: name it reset
    bool resset(session&) { return true; }
#elif CENOTE_MISTAKE == 2  // expect within 12: the connector's prob: name it probe
    bool prob(session&) { return true; }
#elif CENOTE_MISTAKE == 3  // expect within 12: the connector's clos: name it close
    void clos(session&) {}
#elif CENOTE_MISTAKE == 4  // expect within 12: before_aquire: name it before_acquire
    bool before_aquire(session&) { return true; }
#elif CENOTE_MISTAKE == 5  // expect within 12: on_release: name it before_release
    void on_release(session&) {}
#elif CENOTE_MISTAKE == 6  // expect within 12: the connector's probe must accept a T&
    bool probe(session) { return true; }
#else
    // Names of other things are free.
    bool probe(session&) { return true; }
    bool ping(session&) { return true; }
    void resset() {}
#endif
};

void misuse() { cenote::pool<session> pool{connector{}}; }
