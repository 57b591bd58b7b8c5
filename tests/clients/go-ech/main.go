// A client of Encrypted Client Hello: ADDRESS CA NAME LIST HOST. Connects twice with one session cache, and says as JSON what came of each: what the
// server made of the encrypted hello, whose certificate it showed, and what it responded to a request for HOST. LIST is base64, or empty for a plain hello.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

type outcome struct {
	Accepted    bool     `json:"accepted"`
	Resumed     bool     `json:"resumed"`
	Certificate []string `json:"certificate"`
	Response    string   `json:"response"`
	Retry       string   `json:"retry"`
	Error       string   `json:"error"`
}

func try(address, host string, config *tls.Config) outcome {
	connection, err := tls.Dial("tcp", address, config)
	var rejected *tls.ECHRejectionError
	if errors.As(err, &rejected) {
		return outcome{Retry: base64.StdEncoding.EncodeToString(rejected.RetryConfigList), Error: "rejected"}
	}
	if err != nil {
		return outcome{Error: err.Error()}
	}
	defer connection.Close()
	fmt.Fprintf(connection, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	response, err := io.ReadAll(connection)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	state := connection.ConnectionState()
	return outcome{
		Accepted: state.ECHAccepted, Resumed: state.DidResume,
		Certificate: state.PeerCertificates[0].DNSNames, Response: string(response),
	}
}

func main() {
	address, ca, name, list, host := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	pem, err := os.ReadFile(ca)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		panic("no authority in " + ca)
	}
	config := &tls.Config{
		ServerName: name, RootCAs: roots, NextProtos: []string{"http/1.1"}, ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	if list != "" {
		if config.EncryptedClientHelloConfigList, err = base64.StdEncoding.DecodeString(list); err != nil {
			panic(err)
		}
	}
	for range 2 {
		text, err := json.Marshal(try(address, host, config))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}
