package main

import (
	"context"
	"errors"
	"math/rand"
	"net/url"
	"runtime"
	"sort"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

// oneThread is w1.
func oneThread[L any](p pool[L], o command) (answer, error) {
	const batches = 10
	batch := func(count int) time.Duration {
		began := now()
		p.cycles(count)
		return now() - began
	}
	length := o.seconds / batches
	count := 256
	took := batch(count)
	for ; took < length/4; took = batch(count) {
		count *= 2
	}
	count = int(float64(count)*length.Seconds()/took.Seconds()) + 1

	watch := startWatch()
	var each [batches]float64
	for i := range each {
		each[i] = float64(batch(count)) / float64(count)
	}
	cores := watch.passed().cores()
	sort.Float64s(each[:])
	median := (each[batches/2-1] + each[batches/2]) / 2
	return answer{[]metric{{median, "ns", "cycle"}}, cores}, nil
}

// severalThreads is w2.
func severalThreads[L any](p pool[L], o command) (answer, error) {
	const cyclesPerCheck = 32
	done := runGroup(o.threads, o.seconds, func(_ int, stop *stopFlag) (cycles uint64) {
		for ; !stop.set.Load(); cycles += cyclesPerCheck {
			p.cycles(cyclesPerCheck)
		}
		return cycles
	})
	return answer{[]metric{{done.perSecond() / 1e6, "M/s", "cycles"}}, done.took.cores()}, nil
}

// contended is w3.
func contended[L any](p pool[L], o command) (answer, error) {
	each := make([]waits, o.threads)
	done := runGroup(o.threads, o.seconds, func(index int, stop *stopFlag) uint64 {
		for cycles := uint64(0); ; cycles++ {
			began := now()
			lease := p.acquire()
			each[index].record(now() - began)
			p.use(lease)
			hold(o.hold, o.asleep)
			p.release(lease)
			if stop.set.Load() {
				return cycles
			}
		}
	})
	all := together(each)
	return answer{[]metric{
		{done.perSecond() / 1e3, "k/s", "cycles"},
		all.metric("wait p50", 0.5),
		all.metric("wait p99", 0.99),
		all.metric("wait p99.9", 0.999),
		{microseconds(all.longest), "us", "wait longest"},
		{done.leastToMost(), "-", "least/most"},
	}, done.took.cores()}, nil
}

func hold(length time.Duration, asleep bool) {
	switch {
	case length == 0:
	case asleep:
		time.Sleep(length)
	default:
		for began := now(); now()-began < length; {
		}
	}
}

// contendedTasks is w4.
func contendedTasks[L any](p pool[L], o command) (answer, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.threads))
	done := runGroup(o.tasks, o.seconds, func(_ int, stop *stopFlag) uint64 {
		for cycles := uint64(0); ; cycles++ {
			lease := p.acquire()
			p.use(lease)
			runtime.Gosched()
			p.release(lease)
			if stop.set.Load() {
				return cycles
			}
		}
	})
	return answer{[]metric{{done.perSecond() / 1e6, "M/s", "cycles"}}, done.took.cores()}, nil
}

// memoryOfTasks is w4-memory. Its goroutines wait until the process ends.
func memoryOfTasks[L any](p pool[L], o command) (answer, error) {
	watch := startWatch()
	acquireAll(p, o.size)
	var begun atomic.Int64
	wait := func() {
		begun.Add(1)
		p.acquire()
	}
	before := memory()
	for i := 0; i < o.tasks; i++ {
		go wait()
	}
	// The pools do not report waiters; all wait when all have begun and no more memory is allocated.
	var stats runtime.MemStats
	for last := uint64(0); begun.Load() < int64(o.tasks) || stats.Mallocs != last; {
		last = stats.Mallocs
		time.Sleep(50 * time.Millisecond)
		runtime.ReadMemStats(&stats)
	}
	after := memory()
	each := func(before, after uint64) float64 {
		return (float64(after) - float64(before)) / float64(o.tasks)
	}
	return answer{[]metric{
		{each(before.HeapAlloc+before.StackInuse, after.HeapAlloc+after.StackInuse), "-", "bytes"},
		{each(before.Mallocs, after.Mallocs), "-", "allocations"},
	}, watch.passed().cores()}, nil
}

// memory is the memory in use, without garbage.
func memory() (stats runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats
}

func acquireAll[L any](p pool[L], size int) []L {
	leases := make([]L, size)
	for i := range leases {
		leases[i] = p.acquire()
	}
	return leases
}

// refusals is w5.
func refusals[L any](p pool[L], o command) (answer, error) {
	goroutines := runtime.NumGoroutine()
	leases := acquireAll(p, o.size)
	late := make([]time.Duration, o.tasks)
	var served atomic.Int64
	start, ended := assemble(o.tasks, func(index int) {
		began := now()
		ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
		defer cancel()
		if _, err := p.acquireWithin(ctx); err == nil {
			served.Add(1)
		}
		late[index] = now() - began - o.timeout
	})
	watch := startWatch()
	start()
	ended.Wait()
	took := watch.passed()

	// puddle keeps a goroutine for each refused acquire until a later release.
	for _, lease := range leases {
		p.release(lease)
	}
	for runtime.NumGoroutine() > goroutines {
		time.Sleep(time.Millisecond)
	}
	if served.Load() != 0 {
		return answer{}, errors.New("an exhausted pool leased a resource")
	}
	latest := late[0]
	for _, l := range late {
		if l > latest {
			latest = l
		}
	}
	return answer{[]metric{
		{latest.Seconds() * 1e3, "ms", "latest"},
		{took.cpu.Seconds() * 1e3, "ms", "cpu"},
	}, took.cores()}, nil
}

// queries is w6.
func queries(o command) (answer, error) {
	connections, err := connect(o)
	if err != nil {
		return answer{}, err
	}
	defer connections.Close()

	ctx := context.Background()
	each := make([]waits, o.borrowers)
	failures := make([]error, o.borrowers)
	done := runGroup(o.borrowers, o.seconds, func(index int, stop *stopFlag) uint64 {
		random := rand.New(rand.NewSource(int64(index)))
		query := func() error {
			began := now()
			connection, err := connections.Acquire(ctx)
			if err != nil {
				return err
			}
			defer connection.Release()
			each[index].record(now() - began)
			var balance int64
			return connection.QueryRow(ctx, "balance", 1+random.Intn(10000)).Scan(&balance)
		}
		for queries := uint64(0); ; queries++ {
			if err := query(); err != nil {
				failures[index] = err
				return queries
			}
			if stop.set.Load() {
				return queries
			}
		}
	})
	for _, err := range failures {
		if err != nil {
			return answer{}, err
		}
	}
	all := together(each)
	return answer{[]metric{
		{done.perSecond() / 1e3, "k/s", "queries"},
		all.metric("wait p50", 0.5),
		all.metric("wait p99", 0.99),
		{microseconds(all.longest), "us", "wait longest"},
		{done.leastToMost(), "-", "least/most"},
	}, done.took.cores()}, nil
}

// connect opens all connections and prepares the statement on each.
func connect(o command) (*pgxpool.Pool, error) {
	where := url.Values{"host": {o.host}, "port": {o.port}, "user": {o.user},
		"database": {o.database}}
	config, err := pgxpool.ParseConfig("postgres://?" + where.Encode())
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Password = o.password // not in the URL, which appears in errors
	config.MaxConns = int32(o.size)
	config.MinConns = int32(o.size)
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Prepare(ctx, "balance", "select balance from account where id = $1")
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return pgxpool.ConnectConfig(ctx, config)
}
