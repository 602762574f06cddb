package main

import (
	"context"

	"github.com/jackc/puddle"
)

type resource struct{ uses int }

// A pool of resources; L is the type of its leases. A call through an interface costs a nanosecond
// or two, so cycles runs many cycles per call.
type pool[L any] interface {
	cycles(count int)
	acquire() L
	acquireWithin(ctx context.Context) (L, error)
	use(L)
	release(L)
}

type puddlePool struct{ *puddle.Pool }

func newPuddle(size int) pool[*puddle.Resource] {
	open := func(context.Context) (any, error) { return new(resource), nil }
	p := puddle.NewPool(open, func(any) {}, int32(size))
	for i := 0; i < size; i++ {
		must(p.CreateResource(context.Background()))
	}
	return puddlePool{p}
}

func (p puddlePool) cycles(count int) {
	for i := 0; i < count; i++ {
		lease := p.acquire()
		p.use(lease)
		p.release(lease)
	}
}

func (p puddlePool) acquire() *puddle.Resource {
	lease, err := p.Acquire(context.Background())
	must(err)
	return lease
}

func (p puddlePool) acquireWithin(ctx context.Context) (*puddle.Resource, error) {
	return p.Acquire(ctx)
}

func (puddlePool) use(lease *puddle.Resource)     { lease.Value().(*resource).uses++ }
func (puddlePool) release(lease *puddle.Resource) { lease.Release() }

// must is for errors that cannot occur here: a closed pool, a resource that fails to open.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

type channelPool chan *resource

func newChannel(size int) pool[*resource] {
	p := make(channelPool, size)
	for i := 0; i < size; i++ {
		p <- new(resource)
	}
	return p
}

func (p channelPool) cycles(count int) {
	for i := 0; i < count; i++ {
		lease := <-p
		lease.uses++
		p <- lease
	}
}

func (p channelPool) acquire() *resource { return <-p }

func (p channelPool) acquireWithin(ctx context.Context) (*resource, error) {
	select {
	case lease := <-p:
		return lease, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (channelPool) use(lease *resource)       { lease.uses++ }
func (p channelPool) release(lease *resource) { p <- lease }
