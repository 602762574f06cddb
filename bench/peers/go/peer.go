// A peer process for pools of Go; ../README.md has the protocol. The pools are puddle, a buffered
// channel as many programs use it, and pgxpool, which is puddle with connections to PostgreSQL.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Set by the linker, because without modules a program does not know its dependencies' versions.
var puddleVersion, pgxVersion = "unknown", "unknown"

// command is a command with its parameters.
type command struct {
	name                                 string
	given                                map[string]bool
	seconds                              time.Duration
	size, threads, tasks, borrowers      int
	hold, timeout                        time.Duration
	asleep                               bool
	host, port, user, password, database string
}

func parse(line string) (o command, err error) {
	words := strings.Split(line, " ")
	o = command{name: words[0], given: map[string]bool{}}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		o.given[name] = true
		switch name {
		case "seconds":
			o.seconds, err = duration(value, time.Second)
		case "size":
			o.size, err = count(value)
		case "threads":
			o.threads, err = count(value)
		case "tasks":
			o.tasks, err = count(value)
		case "borrowers":
			o.borrowers, err = count(value)
		case "hold":
			o.hold, err = duration(value, time.Microsecond)
		case "timeout":
			o.timeout, err = duration(value, time.Millisecond)
		case "asleep":
			o.asleep, err = strconv.ParseBool(value)
		case "host":
			o.host = value
		case "port":
			o.port = value
		case "user":
			o.user = value
		case "password":
			o.password = value
		case "database":
			o.database = value
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", name, err)
		}
	}
	return o, nil
}

func count(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err == nil && n < 1 {
		err = errors.New("less than one")
	}
	return int(n), err
}

func duration(text string, unit time.Duration) (time.Duration, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err == nil && !(n >= 0 && n < 1e6) {
		err = errors.New("out of range")
	}
	return time.Duration(n * float64(unit)), err
}

type metric struct {
	value float64
	unit  string
	name  string
}

type answer struct {
	metrics []metric
	cores   float64
}

type workload struct {
	needs        string // parameters
	run          func(command) (answer, error)
	inNewProcess bool
}

type subject struct {
	version   string
	workloads map[string]workload
	declines  string // why all other commands are declined
}

func workloadsOf[L any](open func(size int) pool[L]) map[string]workload {
	on := func(run func(pool[L], command) (answer, error)) func(command) (answer, error) {
		return func(o command) (answer, error) { return run(open(o.size), o) }
	}
	return map[string]workload{
		"w1": {needs: "seconds size", run: on(oneThread[L])},
		"w2": {needs: "seconds size threads", run: on(severalThreads[L])},
		"w3": {needs: "seconds size threads hold asleep", run: on(contended[L])},
		"w4": {needs: "seconds size tasks threads", run: on(contendedTasks[L])},
		// The runtime keeps the descriptors of ended goroutines, so later ones would seem cheaper.
		"w4-memory": {needs: "size tasks", run: on(memoryOfTasks[L]), inNewProcess: true},
		"w5":        {needs: "size tasks timeout", run: on(refusals[L])},
	}
}

func subjects() map[string]subject {
	return map[string]subject{
		"puddle": {
			version:   puddleVersion,
			workloads: workloadsOf(newPuddle),
			declines:  "puddle supports w1 to w5; pgxpool supports w6",
		},
		"go-channel": {
			version:   runtime.Version(),
			workloads: workloadsOf(newChannel),
			declines:  "go-channel supports w1 to w5: it has no connections",
		},
		"pgxpool": {
			version: pgxVersion,
			workloads: map[string]workload{"w6": {
				needs: "seconds size borrowers host port user password database",
				run:   queries,
			}},
			declines: "pgxpool supports w6: it pools only connections to PostgreSQL",
		},
	}
}

// execute runs a command line and returns the whole reply, including done. If first, this process
// has run no other command.
func execute(from subject, line string, first bool) string {
	o, err := parse(line)
	work, known := from.workloads[o.name]
	if !known {
		return "declined " + from.declines + "\ndone\n"
	}
	for _, name := range strings.Fields(work.needs) {
		if err == nil && !o.given[name] {
			err = fmt.Errorf("%s: missing", name)
		}
	}
	if err != nil {
		return failed(err)
	}
	if work.inNewProcess && !first {
		return executeInNewProcess(line)
	}
	runtime.GC() // collect the garbage of earlier commands now
	result, err := work.run(o)
	if err != nil {
		return failed(err)
	}
	var text strings.Builder
	for _, m := range result.metrics {
		fmt.Fprintf(&text, "metric %.6f %s %s\n", m.value, m.unit, m.name)
	}
	fmt.Fprintf(&text, "cores %.3f\ndone\n", result.cores)
	return text.String()
}

func failed(err error) string {
	return "failed " + strings.ReplaceAll(err.Error(), "\n", " ") + "\ndone\n"
}

func executeInNewProcess(line string) string {
	self, err := os.Executable()
	if err != nil {
		return failed(err)
	}
	child := exec.Command(self, os.Args[1], line)
	child.Stderr = os.Stderr
	reply, err := child.Output()
	if err != nil {
		return failed(err)
	}
	return string(reply)
}

// answerTo prints the reply. It exits after a timeout, because a server may never reply.
func answerTo(line string, from subject, first bool) {
	const timeout = 2 * time.Minute
	watchdog := time.AfterFunc(timeout, func() {
		fmt.Print(failed(fmt.Errorf("no result after %v", timeout)))
		os.Exit(1)
	})
	text := execute(from, line, first)
	if !watchdog.Stop() {
		select {} // the watchdog is about to exit
	}
	fmt.Print(text)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go-peer POOL [COMMAND]")
		os.Exit(2)
	}
	from, known := subjects()[os.Args[1]]
	if !known {
		fmt.Fprintln(os.Stderr, "unknown pool:", os.Args[1])
		os.Exit(2)
	}
	if len(os.Args) > 2 {
		answerTo(os.Args[2], from, true)
		return
	}
	fmt.Println("ready", os.Args[1], from.version)
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		answerTo(input.Text(), from, false)
	}
}
