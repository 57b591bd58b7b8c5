// quic-go as a client of HTTP/3. Usage: http3-client https://HOST:PORT CA [lossy COUNT | ech LIST]; exits with 0 if all went well.
//
// ech: with Encrypted Client Hello, by this list of keys in base64, which the server must accept; twice, the second time with a ticket.
// lossy: that many requests over a network that loses one packet in twenty both ways, and lets others overtake each other.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const atOnce, inARow = 100, 300
const lossyConnections, lossyAtOnce = 8, 64

var base string
var client *http.Client

type echoed struct {
	Method, Target string
	Length         int
}

func main() {
	base = os.Args[1]
	pem, err := os.ReadFile(os.Args[2])
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	if len(os.Args) > 4 && os.Args[3] == "lossy" {
		count, err := strconv.Atoi(os.Args[4])
		check(err)
		expectLossy(roots, count)
		return
	}
	if len(os.Args) > 4 && os.Args[3] == "ech" {
		list, err := base64.StdEncoding.DecodeString(os.Args[4])
		check(err)
		expectHidden(roots, list)
		return
	}
	sessions := tls.NewLRUClientSessionCache(10)
	for round := range 2 {
		transport := &http3.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, ClientSessionCache: sessions},
			QUICConfig:      &quic.Config{KeepAlivePeriod: 5 * time.Second},
		}
		client = &http.Client{Transport: transport, Timeout: time.Minute}
		response := send("GET", "/echo", nil)
		expect("the first has a ticket, the second none", round == 1, response.TLS.DidResume)
		body(response)
		everything()
		check(transport.Close())
	}
}

func everything() {
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		got := echo(method, "/echo?a=1&b=%20", nil)
		expect("method", method, got.Method)
		expect("target", "/echo?a=1&b=%20", got.Target)
	}
	head := send("HEAD", "/file", nil)
	expect("length of HEAD", int64(1<<20), head.ContentLength)
	expect("content of HEAD", 0, len(body(head)))
	expect("/file", 1<<20, len(body(send("GET", "/file", nil))))
	expect("status", 404, send("GET", "/status?code=404", nil).StatusCode)

	// Longer than all windows, of known and of unknown length.
	big := bytes.Repeat([]byte("0123456789"), 300_000)
	expect("upload", len(big), echo("POST", "/echo", bytes.NewReader(big)).Length)
	expect("upload of unknown length", len(big), echo("POST", "/echo", struct{ io.Reader }{bytes.NewReader(big)}).Length)
	expectTrailers()
	expectHints()
	expectCancelled()

	for range inARow {
		expect("in a row", "GET", echo("GET", "/echo", nil).Method)
	}
	var group sync.WaitGroup
	for number := range atOnce {
		group.Go(func() {
			target := fmt.Sprintf("/echo?n=%d", number)
			expect("at once", target, echo("GET", target, nil).Target)
		})
	}
	group.Wait()
}

// Several connections, as one whose requests wait for a lost packet would take minutes.
func expectLossy(roots *x509.CertPool, count int) {
	var group sync.WaitGroup
	left := make(chan int, count)
	for number := range count {
		left <- number
	}
	close(left)
	client = &http.Client{Transport: spread(roots), Timeout: time.Minute}
	for range lossyAtOnce {
		group.Go(func() {
			for number := range left {
				target := fmt.Sprintf("/echo?n=%d", number)
				got := echo("POST", target, bytes.NewReader(make([]byte, number%5000)))
				expect("over a lossy network", target, got.Target)
				expect("over a lossy network", number%5000, got.Length)
			}
		})
	}
	group.Wait()
	fmt.Println(lost.Load(), "packets lost,", late.Load(), "late")
	expect("some were lost", true, int(lost.Load()) > count/50)
}

func expectHidden(roots *x509.CertPool, list []byte) {
	sessions := tls.NewLRUClientSessionCache(1)
	for round := range 2 {
		transport := &http3.Transport{TLSClientConfig: &tls.Config{
			RootCAs: roots, ClientSessionCache: sessions, EncryptedClientHelloConfigList: list, MinVersion: tls.VersionTLS13,
		}}
		client = &http.Client{Transport: transport, Timeout: time.Minute}
		response := send("GET", "/echo", nil)
		expect("accepted", true, response.TLS.ECHAccepted)
		expect("resumed", round == 1, response.TLS.DidResume)
		body(response)
		check(transport.Close())
	}
}

func expectTrailers() {
	request := request("POST", "/trailers", struct{ io.Reader }{strings.NewReader("body")})
	request.Trailer = http.Header{"X-Request-Sum": {"all"}}
	response := do(request)
	expect("content before trailers", "body", string(body(response)))
	expect("trailers", "of all", response.Trailer.Get("X-Sum"))
}

func expectHints() {
	hinted := 0
	next := request("GET", "/early", nil)
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		hinted = code
		return nil
	}}
	response := do(next.WithContext(httptrace.WithClientTrace(next.Context(), trace)))
	expect("behind the hints", "after the hints", string(body(response)))
	expect("hints", 103, hinted)
}

// A response that is given up concerns no other one.
func expectCancelled() {
	response := send("GET", "/bytes?n=100000000", nil)
	_, err := io.ReadFull(response.Body, make([]byte, 10_000))
	check(err)
	check(response.Body.Close())
	expect("after one that was given up", "GET", echo("GET", "/echo", nil).Method)
}

func request(method, target string, content io.Reader) *http.Request {
	request, err := http.NewRequest(method, base+target, content)
	check(err)
	return request
}

func do(request *http.Request) *http.Response {
	response, err := client.Do(request)
	check(err)
	expect("version", "HTTP/3.0", response.Proto)
	return response
}

func send(method, target string, content io.Reader) *http.Response {
	return do(request(method, target, content))
}

func echo(method, target string, content io.Reader) (got echoed) {
	check(json.Unmarshal(body(send(method, target, content)), &got))
	return got
}

func body(response *http.Response) []byte {
	content, err := io.ReadAll(response.Body)
	check(err)
	check(response.Body.Close())
	return content
}

func expect[T comparable](what string, wanted, got T) {
	if wanted != got {
		check(fmt.Errorf("%s: wanted %v, got %v", what, wanted, got))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
