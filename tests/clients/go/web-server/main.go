// A web application with everything that clients try. Prints `listening HTTP-ADDRESS HTTPS-ADDRESS`.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/net/websocket"
)

// What /file is made of.
var file = func() []byte {
	content := make([]byte, 1<<20)
	for at := range content {
		content[at] = byte(at * 7 >> 3)
	}
	return content
}()

// Tiles that were begun and those whose client went away; /counts tells.
var begun, gone atomic.Int64

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of plain HTTP")
	certificate := flag.String("certificate", "", "PEM file of chain and key")
	root := flag.String("root", "", "folder of files below /files/")
	flag.Parse()
	http.HandleFunc("/echo", echo)
	http.HandleFunc("/echo/", echo)
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		http.ServeContent(w, r, "file.bin", time.Unix(1700000000, 0), bytes.NewReader(file))
	})
	http.HandleFunc("/bytes", sized)
	http.HandleFunc("/gzip", zipped)
	http.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/echo?redirected")
		w.WriteHeader(number(r, "code", 302))
	})
	http.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(number(r, "code", 200)) })
	http.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</asset?n=1>; rel=preload; as=image")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "after the hints")
	})
	http.HandleFunc("/trailers", trailers)
	http.HandleFunc("/events", events)
	http.HandleFunc("/poll", func(w http.ResponseWriter, r *http.Request) {
		pause(r, number(r, "ms", 1000))
		fmt.Fprint(w, "news")
	})
	http.HandleFunc("/tile", tile)
	http.HandleFunc("/counts", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, begun.Load(), gone.Load()) })
	http.HandleFunc("/cookies", cookies)
	http.Handle("/socket", websocket.Handler(func(socket *websocket.Conn) {
		var message []byte
		for websocket.Message.Receive(socket, &message) == nil && websocket.Message.Send(socket, string(message)) == nil {
		}
	}))
	if *root != "" {
		http.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(*root))))
	}
	serve(*listen, *certificate)
}

func serve(listen, certificate string) {
	plain, err := net.Listen("tcp", listen)
	if err != nil {
		log.Fatal(err)
	}
	address := "none"
	if certificate != "" {
		secure, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			log.Fatal(err)
		}
		address = secure.Addr().String()
		go func() { log.Fatal(http.ServeTLS(secure, nil, certificate, certificate)) }()
	}
	fmt.Fprintln(os.Stdout, "listening", plain.Addr(), address)
	log.Fatal(http.Serve(plain, nil))
}

func number(r *http.Request, name string, otherwise int) int {
	if value, err := strconv.Atoi(r.URL.Query().Get(name)); err == nil {
		return value
	}
	return otherwise
}

// Whether the client was there to the end.
func pause(r *http.Request, milliseconds int) bool {
	select {
	case <-time.After(time.Duration(milliseconds) * time.Millisecond):
		return true
	case <-r.Context().Done():
		return false
	}
}

// What came, as JSON.
func echo(w http.ResponseWriter, r *http.Request) {
	sum := sha256.New()
	length, err := io.Copy(sum, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(map[string]interface{}{
		"method":   r.Method,
		"target":   r.RequestURI,
		"protocol": r.Proto,
		"host":     r.Host,
		"length":   length,
		"sha256":   hex.EncodeToString(sum.Sum(nil)),
		"fields":   r.Header,
		"trailers": r.Trailer,
		"peer":     r.RemoteAddr,
	})
}

// /bytes?n=N[&chunked=1][&ms=PAUSE]: in pieces of 64 KiB.
func sized(w http.ResponseWriter, r *http.Request) {
	left := number(r, "n", 1000)
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.URL.Query().Get("chunked") == "" {
		w.Header().Set("Content-Length", strconv.Itoa(left))
	}
	for left > 0 {
		piece := file[:1<<16]
		if left < len(piece) {
			piece = piece[:left]
		}
		if _, err := w.Write(piece); err != nil {
			return
		}
		left -= len(piece)
		if milliseconds := number(r, "ms", 0); milliseconds > 0 {
			w.(http.Flusher).Flush()
			if !pause(r, milliseconds) {
				return
			}
		}
	}
}

func zipped(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Vary", "Accept-Encoding")
	writer := gzip.NewWriter(w)
	fmt.Fprint(writer, "unzipped")
	writer.Close()
}

func trailers(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Trailer", "X-Sum")
	w.WriteHeader(http.StatusOK)
	fmt.Fprint(w, "body")
	w.(http.Flusher).Flush()
	w.Header().Set("X-Sum", "of "+r.Trailer.Get("X-Request-Sum"))
}

// /events?n=COUNT&ms=PAUSE: server-sent events.
func events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	for n := 0; n < number(r, "n", 10); n++ {
		if !pause(r, number(r, "ms", 10)) {
			return
		}
		fmt.Fprintf(w, "id: %d\ndata: event %d\n\n", n, n)
		w.(http.Flusher).Flush()
	}
	fmt.Fprint(w, "event: end\ndata: end\n\n")
}

// /tile?ms=PAUSE: an image of one pixel that takes its time.
func tile(w http.ResponseWriter, r *http.Request) {
	begun.Add(1)
	if !pause(r, number(r, "ms", 0)) {
		gone.Add(1)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Header().Set("Cache-Control", "no-store")
	fmt.Fprint(w, `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`)
}

// Sets four cookies of 2 kB each at the first visit, and says how many bytes of cookies came.
func cookies(w http.ResponseWriter, r *http.Request) {
	if len(r.Cookies()) == 0 {
		for n := 0; n < 4; n++ {
			http.SetCookie(w, &http.Cookie{Name: fmt.Sprint("big", n), Value: hex.EncodeToString(file[:1000]), Path: "/"})
		}
	}
	length := 0
	for _, cookie := range r.Cookies() {
		length += len(cookie.Value)
	}
	fmt.Fprint(w, length)
}
