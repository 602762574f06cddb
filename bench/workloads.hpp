// The workloads of cenote-bench, one function per source file.
#pragma once

#include "peer_process.hpp"
#include "report.hpp"

namespace cenote::bench {

/// W1 and W2: cycles without contention, and the effect of the pool's size.
void run_cycles(report& into, const peer_processes& peers);

/// Cycles through the C API.
void run_c(report& into);

/// W3: more threads than resources.
void run_contention(report& into, const peer_processes& peers);

/// The effect of the line's length on the machine.
void run_machine(report& into);

/// W4: more coroutines than resources.
void run_coroutines(report& into, const peer_processes& peers);

/// W5: many simultaneous timeouts.
void run_storm(report& into, const peer_processes& peers);

/// W6: many borrowers on few connections to PostgreSQL.
void run_queries(report& into, const peer_processes& peers);

/// A lease per query on real servers, and the memory of a connection.
void run_servers(report& into);

/// Statements through a database.
void run_databases(report& into);

/// W7: a million rows as structs.
void run_rows(report& into);

/// Many rows at once, and COPY.
void run_many(report& into);

/// Deadlines and recovery with a failing server.
void run_outages(report& into);

/// Compile times of the public headers.
void run_headers(report& into);

}  // namespace cenote::bench
