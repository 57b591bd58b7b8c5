// Go's net/http as a client. Usage: web-client URL CA [trailers|hints|load COUNT [get|post]]; exits with 0 if all went well.
package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type echoed struct {
	Method, Target, Sha256 string
	Length                 int
	Trailers               map[string][]string
}

var base string
var client *http.Client

func main() {
	base = os.Args[1]
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(os.Args[2])
	check(err)
	roots.AppendCertsFromPEM(pem)
	dialer := &net.Dialer{}
	if from := os.Getenv("CLIENT_ADDRESS"); from != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	for _, http2 := range []bool{true, false} {
		transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: http2, ExpectContinueTimeout: 5 * time.Second}
		if !http2 {
			transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		jar, _ := cookiejar.New(nil)
		client = &http.Client{Transport: transport, Jar: jar, Timeout: time.Minute}
		switch append(os.Args[3:], "")[0] {
		case "load":
			expectLoad()
		case "trailers":
			expectTrailers()
		case "hints":
			expectHints()
		default:
			everything()
		}
	}
}

func everything() {
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		expect(method, echo(request(method, "/echo?a=1&b=%20", nil)).Method)
	}
	head := do(request("HEAD", "/file", nil))
	expect(int64(1<<20), head.ContentLength)

	response, err := client.PostForm(base+"/echo", url.Values{"name": {"ä b", "c&d"}})
	check(err)
	expect(24, decode(response).Length)
	sum := sha256.Sum256([]byte(`{"a":[1,2]}`))
	expect(hex.EncodeToString(sum[:]), echo(request("POST", "/echo", strings.NewReader(`{"a":[1,2]}`))).Sha256)
	expectMultipart()

	// A body of unknown length, and one that waits for 100.
	big := bytes.Repeat([]byte("0123456789"), 300_000)
	expect(len(big), echo(request("POST", "/echo", struct{ io.Reader }{bytes.NewReader(big)})).Length)
	patient := request("PUT", "/echo", bytes.NewReader(big))
	patient.Header.Set("Expect", "100-continue")
	expect(len(big), echo(patient).Length)

	expect("/echo?redirected", echo(request("GET", "/redirect?code=302", nil)).Target)
	expect("POST", echo(request("POST", "/redirect?code=307", strings.NewReader("again"))).Method)
	expect("GET", echo(request("POST", "/redirect?code=303", strings.NewReader("once"))).Method)
	expect("unzipped", body(do(request("GET", "/gzip", nil))))

	part := request("GET", "/file", nil)
	part.Header.Set("Range", "bytes=100-199")
	response = do(part)
	expect(206, response.StatusCode)
	expect("bytes 100-199/1048576", response.Header.Get("Content-Range"))
	expect(100, len(body(response)))
	same := request("GET", "/file", nil)
	same.Header.Set("If-None-Match", `"one"`)
	expect(304, do(same).StatusCode)
	expect(204, do(request("GET", "/status?code=204", nil)).StatusCode)
	expect(200_000, len(body(do(request("GET", "/bytes?n=200000&chunked=1", nil)))))
	expect("0", body(do(request("GET", "/cookies", nil))))
	expect("8000", body(do(request("GET", "/cookies", nil))))
	expectReuse()
}

func expectMultipart() {
	var form bytes.Buffer
	writer := multipart.NewWriter(&form)
	part, err := writer.CreateFormFile("photo", "é.jpg")
	check(err)
	part.Write(bytes.Repeat([]byte{0, 255, 13, 10}, 50_000))
	check(writer.WriteField("note", "text"))
	check(writer.Close())
	length := form.Len()
	sent := request("POST", "/echo", &form)
	sent.Header.Set("Content-Type", writer.FormDataContentType())
	expect(length, echo(sent).Length)
}

// Both ways. HTTP/1.1 sends them behind a chunked body.
func expectTrailers() {
	sent := request("POST", "/trailers", struct{ io.Reader }{strings.NewReader("body")})
	sent.Trailer = http.Header{"X-Request-Sum": {"all"}}
	response := do(sent)
	expect("body", body(response))
	expect("of all", response.Trailer.Get("X-Sum"))
}

func expectHints() {
	hinted := 0
	next := request("GET", "/early", nil)
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
		hinted = code
		return nil
	}}
	expect("after the hints", body(do(next.WithContext(httptrace.WithClientTrace(next.Context(), trace)))))
	expect(103, hinted)
}

func expectReuse() {
	connections := 0
	for n := 0; n < 200; n++ {
		next := request("GET", "/echo", nil)
		trace := &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
			if !got.Reused {
				connections++
			}
		}}
		echo(next.WithContext(httptrace.WithClientTrace(next.Context(), trace)))
	}
	if connections > 1 {
		fail("%d connections for 200 requests", connections)
	}
}

// So many requests by four at once, a tenth of them POSTs unless `get` is said. None may fail.
func expectLoad() {
	count, err := strconv.Atoi(os.Args[4])
	check(err)
	kind := append(os.Args[5:], "")[0]
	var next, failed atomic.Int64
	var first atomic.Value
	var group sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := next.Add(1); n <= int64(count); n = next.Add(1) {
				one := request("GET", "/", nil)
				if kind == "post" || n%10 == 0 && kind == "" {
					one = request("POST", "/", strings.NewReader("a=b"))
				}
				response, err := client.Do(one)
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if err == nil && response.StatusCode != 200 {
						err = fmt.Errorf("%s: status %d", one.Method, response.StatusCode)
					}
				}
				if err != nil {
					failed.Add(1)
					first.CompareAndSwap(nil, err.Error())
				}
			}
		}()
	}
	group.Wait()
	if failed.Load() > 0 {
		fail("%d of %d requests failed, the first with: %v", failed.Load(), count, first.Load())
	}
}

func request(method, target string, content io.Reader) *http.Request {
	request, err := http.NewRequest(method, base+target, content)
	check(err)
	return request
}

func do(request *http.Request) *http.Response {
	response, err := client.Do(request)
	if err != nil {
		fail("%s %s: %v", request.Method, request.URL, err)
	}
	return response
}

func body(response *http.Response) string {
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	check(err)
	return string(content)
}

func echo(request *http.Request) echoed { return decode(do(request)) }

func decode(response *http.Response) echoed {
	var got echoed
	content := body(response)
	if err := json.Unmarshal([]byte(content), &got); err != nil {
		fail("%s: %d %q", response.Request.URL, response.StatusCode, content)
	}
	return got
}

func expect(wanted, got interface{}) {
	if wanted != got {
		fail("wanted %v, got %v", wanted, got)
	}
}

func check(err error) {
	if err != nil {
		fail("%v", err)
	}
}

func fail(format string, values ...interface{}) {
	panic(fmt.Sprintf(format, values...))
}
