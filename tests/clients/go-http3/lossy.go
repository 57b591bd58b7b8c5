package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// Of a hundred packets, those that are lost, and those that others overtake.
const losses, delays = 5, 5

// How long what is overtaken takes.
const delay = 15 * time.Millisecond

var lost, late atomic.Int64

// A socket that loses and delays, both ways.
type lossy struct{ net.PacketConn }

func (l lossy) WriteTo(data []byte, to net.Addr) (int, error) {
	switch what := rand.N(100); {
	case what < losses:
		lost.Add(1)
		return len(data), nil
	case what < losses+delays:
		late.Add(1)
		kept := append([]byte(nil), data...)
		time.AfterFunc(delay, func() { l.PacketConn.WriteTo(kept, to) })
		return len(data), nil
	}
	return l.PacketConn.WriteTo(data, to)
}

func (l lossy) ReadFrom(data []byte) (int, net.Addr, error) {
	for {
		length, from, err := l.PacketConn.ReadFrom(data)
		if err != nil || rand.N(100) >= losses {
			return length, from, err
		}
		lost.Add(1)
	}
}

// Several connections that take requests in turns.
type turns struct {
	transports []*http3.Transport
	next       atomic.Uint64
}

func (t *turns) RoundTrip(request *http.Request) (*http.Response, error) {
	return t.transports[t.next.Add(1)%uint64(len(t.transports))].RoundTrip(request)
}

func spread(roots *x509.CertPool) *turns {
	var out turns
	for range lossyConnections {
		socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		check(err)
		transport := &quic.Transport{Conn: lossy{socket}}
		dial := func(ctx context.Context, address string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			check(err)
			to, err := net.ResolveUDPAddr("udp4", "127.0.0.1:"+port)
			check(err)
			return transport.Dial(ctx, to, tlsConfig, config)
		}
		out.transports = append(out.transports, &http3.Transport{Dial: dial, TLSClientConfig: &tls.Config{RootCAs: roots}})
	}
	return &out
}
