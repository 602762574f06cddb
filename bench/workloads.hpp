// The workloads of cenote-bench, one function per file.
#pragma once

#include "guest.hpp"
#include "report.hpp"

namespace cenote::bench {

/// Enough resources for everybody: what a cycle costs on one thread and on two, and whether the
/// size of the pool shows.
void run_cycles(report& into, const guests& others);

/// The same through the interface of C.
void run_c(report& into);

/// More threads than resources: throughput, waits and fairness.
void run_contention(report& into, const guests& others);

/// The machine alone: whether the length of the line shows.
void run_machine(report& into);

/// More coroutines than resources, and one that has not to wait: what Asio's users have today.
void run_coroutines(report& into, const guests& others);

/// Many waits that end with their deadline, all at once.
void run_storm(report& into, const guests& others);

/// PostgreSQL with many borrowers on few connections: what is left of the server's speed.
void run_queries(report& into, const guests& others);

/// Real servers: what a lease for each query costs, and what a connection takes up.
void run_servers(report& into);

/// A statement through a database, against the same one on a connection held by hand.
void run_databases(report& into);

/// A server that is down: how exactly deadlines are kept, and how soon its return is noticed.
void run_outages(report& into);

/// What it costs to include each public header.
void run_headers(report& into);

}  // namespace cenote::bench
