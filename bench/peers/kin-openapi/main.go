// A reverse proxy that validates requests with kin-openapi, the library that API Firewall and most gateways written in Go validate with, as the library's own
// examples use it: nothing of ours decides. Usage: kin-openapi DOCUMENT LISTEN UPSTREAM, for `bench contract --peer-kin-openapi`.
package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// As API Firewall bounds bodies.
const maxBody = 4 << 20

func main() {
	loader := openapi3.NewLoader()
	document, err := loader.LoadFromFile(os.Args[1])
	check(err)
	check(document.Validate(loader.Context, openapi3.DisableSchemaPatternValidation()))
	router, err := gorillamux.NewRouter(document)
	check(err)
	upstream, err := url.Parse("http://" + os.Args[3])
	check(err)
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	options := &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}
	handler := func(response http.ResponseWriter, request *http.Request) {
		request.Body = http.MaxBytesReader(response, request.Body, maxBody)
		route, parameters, err := router.FindRoute(request)
		if err == nil {
			input := &openapi3filter.RequestValidationInput{Request: request, PathParams: parameters, Route: route, Options: options}
			err = openapi3filter.ValidateRequest(request.Context(), input)
		}
		if err != nil {
			response.WriteHeader(http.StatusForbidden)
			io.WriteString(response, "rejected\n")
			return
		}
		proxy.ServeHTTP(response, request)
	}
	log.Fatal(http.ListenAndServe(os.Args[2], http.HandlerFunc(handler)))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
