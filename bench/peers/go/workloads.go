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
func oneThread[L any](p pool[L], o order) (answer, error) {
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
func severalThreads[L any](p pool[L], o order) (answer, error) {
	const betweenLooks = 32
	done := runShift(o.threads, o.seconds, func(_ int, stop *whistle) (cycles uint64) {
		for ; !stop.blown.Load(); cycles += betweenLooks {
			p.cycles(betweenLooks)
		}
		return cycles
	})
	return answer{[]metric{{done.perSecond() / 1e6, "M/s", "cycles"}}, done.took.cores()}, nil
}

// crowd is w3.
func crowd[L any](p pool[L], o order) (answer, error) {
	each := make([]waits, o.threads)
	done := runShift(o.threads, o.seconds, func(index int, stop *whistle) uint64 {
		for cycles := uint64(0); ; cycles++ {
			asked := now()
			lease := p.acquire()
			each[index].record(now() - asked)
			p.use(lease)
			hold(o.hold, o.asleep)
			p.release(lease)
			if stop.blown.Load() {
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

// crowdOfTasks is w4.
func crowdOfTasks[L any](p pool[L], o order) (answer, error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.threads))
	done := runShift(o.tasks, o.seconds, func(_ int, stop *whistle) uint64 {
		for cycles := uint64(0); ; cycles++ {
			lease := p.acquire()
			p.use(lease)
			runtime.Gosched()
			p.release(lease)
			if stop.blown.Load() {
				return cycles
			}
		}
	})
	return answer{[]metric{{done.perSecond() / 1e6, "M/s", "cycles"}}, done.took.cores()}, nil
}

// memoryOfTasks is w4-memory. Nobody is ever served: the process ends with it.
func memoryOfTasks[L any](p pool[L], o order) (answer, error) {
	watch := startWatch()
	holdAll(p, o.size)
	var begun atomic.Int64
	wait := func() {
		begun.Add(1)
		p.acquire()
	}
	before := memory()
	for i := 0; i < o.tasks; i++ {
		go wait()
	}
	// No pool tells how many wait; but once all have begun and nothing more is taken, all do.
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

// memory is what is in use; a collection first, for garbage is not.
func memory() (stats runtime.MemStats) {
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats
}

func holdAll[L any](p pool[L], size int) []L {
	held := make([]L, size)
	for i := range held {
		held[i] = p.acquire()
	}
	return held
}

// refusals is w5.
func refusals[L any](p pool[L], o order) (answer, error) {
	goroutines := runtime.NumGoroutine()
	held := holdAll(p, o.size)
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

	// Who was refused by puddle leaves a goroutine behind, which ends with somebody's release.
	for _, lease := range held {
		p.release(lease)
	}
	for runtime.NumGoroutine() > goroutines {
		time.Sleep(time.Millisecond)
	}
	if served.Load() != 0 {
		return answer{}, errors.New("a lease came from a pool that had none")
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
func queries(o order) (answer, error) {
	connections, err := connect(o)
	if err != nil {
		return answer{}, err
	}
	defer connections.Close()

	ctx := context.Background()
	each := make([]waits, o.borrowers)
	failures := make([]error, o.borrowers)
	done := runShift(o.borrowers, o.seconds, func(index int, stop *whistle) uint64 {
		random := rand.New(rand.NewSource(int64(index)))
		query := func() error {
			asked := now()
			connection, err := connections.Acquire(ctx)
			if err != nil {
				return err
			}
			defer connection.Release()
			each[index].record(now() - asked)
			var balance int64
			return connection.QueryRow(ctx, "balance", 1+random.Intn(10000)).Scan(&balance)
		}
		for queries := uint64(0); ; queries++ {
			if err := query(); err != nil {
				failures[index] = err
				return queries
			}
			if stop.blown.Load() {
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
func connect(o order) (*pgxpool.Pool, error) {
	where := url.Values{"host": {o.host}, "port": {o.port}, "user": {o.user},
		"database": {o.database}}
	config, err := pgxpool.ParseConfig("postgres://?" + where.Encode())
	if err != nil {
		return nil, err
	}
	config.ConnConfig.Password = o.password // not in the URL, which errors quote
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
