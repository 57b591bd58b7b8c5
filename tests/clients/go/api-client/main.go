// Calls of an API by Go's net/http. Usage: api-client URL < CALLS; exits with 0 if each went as the list says (calls_of.py).
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strings"
	"time"
)

type file struct {
	Field, Name, Type string
	Bytes             int
}

type call struct {
	Method, Path, Code, Keep string
	Query, Form              [][2]string
	Headers                  map[string]string
	Json                     json.RawMessage
	File                     *file
	Status                   int
	Found                    *int
}

func main() {
	var calls []call
	check(json.NewDecoder(os.Stdin).Decode(&calls))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{}}
	kept, different := map[string]string{}, 0
	for _, one := range calls {
		request, err := http.NewRequest(one.Method, target(os.Args[1], one, kept), nil)
		check(err)
		kind, body := content(one)
		if kind != "" {
			request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			request.Header.Set("Content-Type", kind)
		}
		for name, value := range one.Headers {
			request.Header.Set(name, value)
		}
		response, err := client.Do(request)
		check(err)
		text, err := io.ReadAll(response.Body)
		check(err)
		response.Body.Close()
		if said := expect(one, response, text, kept); said != "" {
			different++
			fmt.Fprintf(os.Stderr, "%s %s %s: %d %.300s %s\n", one.Method, request.URL, one.Json, response.StatusCode, text, said)
		}
	}
	if different > 0 {
		os.Exit(1)
	}
}

func target(base string, one call, kept map[string]string) string {
	path := one.Path
	for name, value := range kept {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	query := url.Values{}
	for _, pair := range one.Query {
		query.Add(pair[0], pair[1])
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return base + path
}

func content(one call) (string, []byte) {
	switch {
	case one.File != nil:
		var body bytes.Buffer
		writer := multipart.NewWriter(&body)
		for _, pair := range one.Form {
			check(writer.WriteField(pair[0], pair[1]))
		}
		head := textproto.MIMEHeader{}
		head.Set("Content-Disposition", fmt.Sprintf(`form-data; name="%s"; filename="%s"`, one.File.Field, one.File.Name))
		head.Set("Content-Type", one.File.Type)
		part, err := writer.CreatePart(head)
		check(err)
		_, err = part.Write(bytes.Repeat([]byte("\x89PNG"), one.File.Bytes/4))
		check(err)
		check(writer.Close())
		return writer.FormDataContentType(), body.Bytes()
	case one.Form != nil:
		form := url.Values{}
		for _, pair := range one.Form {
			form.Add(pair[0], pair[1])
		}
		return "application/x-www-form-urlencoded", []byte(form.Encode())
	case one.Json != nil:
		// As a program that decodes and encodes writes it.
		var value interface{}
		check(json.Unmarshal(one.Json, &value))
		text, err := json.Marshal(value)
		check(err)
		return "application/json", text
	}
	return "", nil
}

func expect(one call, response *http.Response, text []byte, kept map[string]string) string {
	var problem struct{ Code string }
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") {
		check(json.Unmarshal(text, &problem))
	}
	if response.StatusCode != one.Status || problem.Code != one.Code {
		return fmt.Sprintf("instead of %d %s", one.Status, one.Code)
	}
	if one.Keep != "" {
		var object map[string]interface{}
		check(json.Unmarshal(text, &object))
		kept[one.Keep] = fmt.Sprint(object[one.Keep])
	}
	if one.Found != nil {
		var list []interface{}
		check(json.Unmarshal(text, &list))
		if len(list) != *one.Found {
			return fmt.Sprintf("instead of %d", *one.Found)
		}
	}
	return ""
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
