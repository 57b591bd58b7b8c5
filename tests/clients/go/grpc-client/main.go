// A gRPC client that does one thing and exits with 0 if it went well. Usage: grpc-client -address HOST:PORT [-ca FILE] SCENARIO [NUMBER...]
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"portunus.test/clients/raw"
)

const service = "/portunus.test.Echo/"

// The numbers behind each scenario are in the order that its function reads them.
var scenarios = map[string]func(*grpc.ClientConn, []int) error{
	"unary":     unary,
	"ping-pong": pingPong,
	"quiet":     quiet,
	"upload":    upload,
	"feed":      feed,
	"cancel":    cancel,
	"deadlines": deadlines,
	"load":      load,
	"health":    checkHealth,
	"rejected":  rejected,
}

func main() {
	address := flag.String("address", "", "where to connect")
	ca := flag.String("ca", "", "PEM file of roots; plain text without it")
	flag.Parse()
	credential := insecure.NewCredentials()
	if *ca != "" {
		var err error
		if credential, err = credentials.NewClientTLSFromFile(*ca, "localhost"); err != nil {
			fail(err)
		}
	}
	connection, err := grpc.Dial(*address,
		grpc.WithTransportCredentials(credential),
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw.Codec{})),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 20 * time.Second}))
	if err != nil {
		fail(err)
	}
	var numbers []int
	for _, text := range flag.Args()[1:] {
		number, err := strconv.Atoi(text)
		if err != nil {
			fail(err)
		}
		numbers = append(numbers, number)
	}
	if err := scenarios[flag.Arg(0)](connection, numbers); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func call(ctx context.Context, connection *grpc.ClientConn, method, message string) error {
	var reply []byte
	if err := connection.Invoke(ctx, service+method, []byte(message), &reply); err != nil {
		return err
	}
	if method == "Unary" && string(reply) != message {
		return fmt.Errorf("sent %q, got %q", message, reply)
	}
	return nil
}

func open(ctx context.Context, connection *grpc.ClientConn, method string) (grpc.ClientStream, error) {
	description := &grpc.StreamDesc{StreamName: path.Base(method), ServerStreams: true, ClientStreams: true}
	return connection.NewStream(ctx, description, service+method)
}

// One message there and back.
func exchange(stream grpc.ClientStream, message string) error {
	if err := stream.SendMsg([]byte(message)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var reply []byte
	if err := stream.RecvMsg(&reply); err != nil {
		return err
	}
	if !bytes.Equal(reply, []byte(message)) {
		return fmt.Errorf("sent %q, got %q", message, reply)
	}
	return nil
}

func finish(stream grpc.ClientStream) error {
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var reply []byte
	if err := stream.RecvMsg(&reply); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the stream did not end well: %v", err)
	}
	return nil
}

// unary CALLS AT_ONCE
func unary(connection *grpc.ClientConn, numbers []int) error {
	var next, failed atomic.Int64
	var first atomic.Value
	inParallel(numbers[1], func(int) error {
		for n := next.Add(1); n <= int64(numbers[0]); n = next.Add(1) {
			if err := call(context.Background(), connection, "Unary", fmt.Sprint(n)); err != nil {
				failed.Add(1)
				first.CompareAndSwap(nil, err.Error())
			}
		}
		return nil
	})
	if failed.Load() > 0 {
		return fmt.Errorf("%d of %d calls failed, the first with: %v", failed.Load(), numbers[0], first.Load())
	}
	return nil
}

// ping-pong STREAMS MESSAGES PAUSE_MS
func pingPong(connection *grpc.ClientConn, numbers []int) error {
	return inParallel(numbers[0], func(int) error {
		start := time.Now()
		stream, err := open(context.Background(), connection, "Chat")
		if err != nil {
			return err
		}
		for n := 0; n < numbers[1]; n++ {
			if err := exchange(stream, fmt.Sprint(n)); err != nil {
				return fmt.Errorf("after %d messages, %v: %w", n, time.Since(start), err)
			}
			time.Sleep(time.Duration(numbers[2]) * time.Millisecond)
		}
		return finish(stream)
	})
}

// quiet SECONDS: a stream in which nothing moves but keepalive pings.
func quiet(connection *grpc.ClientConn, numbers []int) error {
	stream, err := open(context.Background(), connection, "Chat")
	if err != nil {
		return err
	}
	if err := exchange(stream, "before"); err != nil {
		return err
	}
	// The stream says by itself when it is cut.
	ended := make(chan error, 1)
	go func() {
		var reply []byte
		if err := stream.RecvMsg(&reply); err != nil {
			ended <- err
		} else if string(reply) != "after" {
			ended <- fmt.Errorf("got %q", reply)
		}
		close(ended)
	}()
	start := time.Now()
	select {
	case err := <-ended:
		return fmt.Errorf("the stream ended after %v: %v", time.Since(start), err)
	case <-time.After(time.Duration(numbers[0]) * time.Second):
	}
	if err := stream.SendMsg([]byte("after")); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := <-ended; err != nil {
		return err
	}
	return finish(stream)
}

// upload MESSAGES PAUSE_MS: client streaming.
func upload(connection *grpc.ClientConn, numbers []int) error {
	start := time.Now()
	stream, err := open(context.Background(), connection, "Collect")
	if err != nil {
		return err
	}
	for n := 0; n < numbers[0]; n++ {
		if err := stream.SendMsg([]byte(fmt.Sprint(n))); err != nil {
			var reply []byte
			return fmt.Errorf("after %d messages, %v: %v", n, time.Since(start), stream.RecvMsg(&reply))
		}
		time.Sleep(time.Duration(numbers[1]) * time.Millisecond)
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	var reply []byte
	if err := stream.RecvMsg(&reply); err != nil {
		return fmt.Errorf("at the end, after %v: %w", time.Since(start), err)
	}
	if string(reply) != fmt.Sprint(numbers[0]) {
		return fmt.Errorf("%s of %d messages arrived", reply, numbers[0])
	}
	return nil
}

// feed MESSAGES PAUSE_MS: server streaming.
func feed(connection *grpc.ClientConn, numbers []int) error {
	stream, err := open(context.Background(), connection, "Feed")
	if err != nil {
		return err
	}
	if err := stream.SendMsg([]byte(fmt.Sprint(numbers[0], numbers[1]))); err != nil {
		return err
	}
	for n := 0; n < numbers[0]; n++ {
		var reply []byte
		if err := stream.RecvMsg(&reply); err != nil {
			return fmt.Errorf("after %d messages: %w", n, err)
		}
		if string(reply) != fmt.Sprint(n) {
			return fmt.Errorf("expected %d, got %s", n, reply)
		}
	}
	return finish(stream)
}

// beside runs `work` while a stream is open on the same connection, and exchanges messages in it before and after.
func beside(connection *grpc.ClientConn, work func() error) error {
	stream, err := open(context.Background(), connection, "Chat")
	if err != nil {
		return err
	}
	if err := exchange(stream, "before"); err != nil {
		return err
	}
	if err := work(); err != nil {
		return err
	}
	if err := exchange(stream, "after"); err != nil {
		return fmt.Errorf("the stream beside: %w", err)
	}
	return finish(stream)
}

// cancel CALLS: begins calls and drops them, beside a stream; then others must be answered.
func cancel(connection *grpc.ClientConn, numbers []int) error {
	return beside(connection, func() error {
		for n := 0; n < numbers[0]; n++ {
			ctx, stop := context.WithCancel(context.Background())
			stream, err := open(ctx, connection, "Sleep")
			if err != nil {
				stop()
				return fmt.Errorf("call %d: %w", n, err)
			}
			err = stream.SendMsg([]byte("60000"))
			time.Sleep(2 * time.Millisecond)
			stop()
			if err != nil {
				return fmt.Errorf("call %d: %w", n, err)
			}
		}
		return unary(connection, []int{numbers[0], 1})
	})
}

// deadlines CALLS PAUSE_MS: calls that take longer than their deadline of 50 ms allows, beside a stream.
func deadlines(connection *grpc.ClientConn, numbers []int) error {
	return beside(connection, func() error {
		return inParallel(numbers[0], func(n int) error {
			time.Sleep(time.Duration(n*numbers[1]) * time.Millisecond)
			ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer stop()
			if err := call(ctx, connection, "Sleep", "60000"); status.Code(err) != codes.DeadlineExceeded {
				return fmt.Errorf("call %d: %w", n, err)
			}
			return nil
		})
	})
}

// load MS AT_ONCE: unary calls for that long, or until SIGTERM, beside a stream if the third number is 1. No call may fail.
func load(connection *grpc.ClientConn, numbers []int) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	var over atomic.Bool
	go func() {
		<-stop
		over.Store(true)
	}()
	work := func() error {
		end := time.Now().Add(time.Duration(numbers[0]) * time.Millisecond)
		var calls, failed atomic.Int64
		var first atomic.Value
		inParallel(numbers[1], func(int) error {
			for time.Now().Before(end) && !over.Load() {
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				if err := call(ctx, connection, "Unary", fmt.Sprint(calls.Add(1))); err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
				}
				stop()
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
		if failed.Load() > 0 {
			return fmt.Errorf("%d of %d calls failed, the first with: %v", failed.Load(), calls.Load(), first.Load())
		}
		return nil
	}
	if numbers[2] == 1 {
		return beside(connection, work)
	}
	return work()
}

// health: what grpc-health-probe and the health checks of load balancers ask, once and as a stream, and what grpcurl asks by reflection.
func checkHealth(connection *grpc.ClientConn, _ []int) error {
	client := healthpb.NewHealthClient(connection)
	response, err := client.Check(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if response.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("health is %v", response.Status)
	}
	_, err = client.Check(context.Background(), &healthpb.HealthCheckRequest{Service: "unknown"})
	if status.Code(err) != codes.NotFound {
		return fmt.Errorf("health of an unknown service: %w", err)
	}
	watch, err := client.Watch(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	if response, err = watch.Recv(); err != nil || response.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("watched health is %v: %w", response, err)
	}
	stream, err := reflection.NewServerReflectionClient(connection).ServerReflectionInfo(context.Background())
	if err != nil {
		return err
	}
	list := &reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(list); err != nil {
		return err
	}
	services, err := stream.Recv()
	if err != nil {
		return err
	}
	if found := services.GetListServicesResponse().GetService(); len(found) != 2 {
		return fmt.Errorf("services: %v", found)
	}
	return stream.CloseSend()
}

// rejected AT_ONCE CODE AT_ONCE CODE ...: for each pair, that many calls of the method Sleep of the service `rN` (N counts pairs), which takes
// a minute where it gets to the server. The first call that ends must end with the code.
func rejected(connection *grpc.ClientConn, numbers []int) error {
	var wrong []error
	for n := 0; 2*n < len(numbers); n++ {
		ctx, stop := context.WithTimeout(context.Background(), 50*time.Second)
		ended := make(chan error, numbers[2*n])
		for begun := 0; begun < numbers[2*n]; begun++ {
			go func() {
				var reply []byte
				ended <- connection.Invoke(ctx, fmt.Sprintf("/r%d/Sleep", n), []byte("60000"), &reply)
			}()
		}
		if err := <-ended; status.Code(err) != codes.Code(numbers[2*n+1]) {
			wrong = append(wrong, fmt.Errorf("r%d: %w instead of code %d", n, err, numbers[2*n+1]))
		}
		stop()
	}
	return errors.Join(wrong...)
}

// The first error of any.
func inParallel(count int, work func(int) error) error {
	errs := make(chan error, count)
	var group sync.WaitGroup
	for n := 0; n < count; n++ {
		group.Add(1)
		go func(n int) {
			defer group.Done()
			if err := work(n); err != nil {
				errs <- err
			}
		}(n)
	}
	group.Wait()
	close(errs)
	return <-errs
}
