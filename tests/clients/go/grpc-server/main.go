// A gRPC server of raw bytes. Prints `listening ADDRESS`, and `called` at the first call. SIGTERM stops it gracefully.
//
// Methods, by the last part of their path: Unary and Chat send back what they get, Collect counts the messages of an upload, Sleep
// waits as many milliseconds as its message says, Feed sends "COUNT MILLISECONDS" messages. Health checks and reflection are there, too.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"path"
	"strconv"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"portunus.test/clients/raw"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address")
	maxAge := flag.Duration("max-age", 0, "MaxConnectionAge; 0 for none")
	certificate := flag.String("certificate", "", "PEM file of chain and key; plain text without it")
	flag.Parse()

	options := []grpc.ServerOption{
		grpc.ForceServerCodec(raw.Codec{}),
		grpc.UnknownServiceHandler(handle),
		// Clients that are connected directly may ping as often as they do through a proxy.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if *maxAge > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: *maxAge}))
	}
	if *certificate != "" {
		pair, err := tls.LoadX509KeyPair(*certificate, *certificate)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(options...)
	healthpb.RegisterHealthServer(server, health.NewServer())
	reflection.Register(server)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		server.GracefulStop()
	}()
	fmt.Println("listening", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}

var called sync.Once

func handle(_ interface{}, stream grpc.ServerStream) error {
	called.Do(func() { fmt.Println("called") })
	method, _ := grpc.MethodFromServerStream(stream)
	switch path.Base(method) {
	case "Unary", "Chat":
		return echo(stream)
	case "Collect":
		return collect(stream)
	case "Sleep":
		return sleep(stream)
	case "Feed":
		return feed(stream)
	}
	return status.Errorf(codes.Unimplemented, "no method %s", method)
}

func echo(stream grpc.ServerStream) error {
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return unlessEnd(err)
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}

func collect(stream grpc.ServerStream) error {
	for count := 0; ; count++ {
		var message []byte
		if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
			return stream.SendMsg([]byte(strconv.Itoa(count)))
		} else if err != nil {
			return err
		}
	}
}

func sleep(stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	milliseconds, err := strconv.Atoi(string(message))
	if err != nil {
		return err
	}
	select {
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return stream.SendMsg(message)
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func feed(stream grpc.ServerStream) error {
	var message []byte
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	var count, milliseconds int
	if _, err := fmt.Sscan(string(message), &count, &milliseconds); err != nil {
		return err
	}
	for sent := 0; sent < count; sent++ {
		if err := stream.SendMsg([]byte(strconv.Itoa(sent))); err != nil {
			return err
		}
		time.Sleep(time.Duration(milliseconds) * time.Millisecond)
	}
	return nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
