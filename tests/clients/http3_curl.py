"""curl's library over HTTP/3 alone. Usage: http3_curl.py URL CA [HOST:PORT:ADDRESS]; with where a host is, as `--resolve` of curl says it, one page is printed."""

import sys

from curl_cffi import CurlHttpVersion, CurlOpt, requests


def check(fact, what):
    if not fact:
        sys.exit(what)


def main(url, ca):
    for who in (None, "chrome"):
        with requests.Session(http_version=CurlHttpVersion.V3ONLY, verify=ca, impersonate=who) as session:
            for number in range(20):
                response = session.get(f"{url}/echo?n={number}", timeout=30)
                said = response.json()
                check((response.status_code, said["method"]) == (200, "GET"), f"{who} {number}: {response.status_code} {said}")
                check(response.http_version == CurlHttpVersion.V3, f"{who}: version {response.http_version}")
            check(session.post(f"{url}/echo", data=b"x" * 200_000, timeout=30).json()["length"] == 200_000, f"{who}: POST")
            check(len(session.get(f"{url}/file", timeout=30).content) == 1 << 20, f"{who}: /file")
            response = session.head(f"{url}/file", timeout=30)
            check((response.headers["content-length"], response.content) == ("1048576", b""), f"{who}: HEAD {response.headers}")
            check(session.get(f"{url}/status?code=404", timeout=30).status_code == 404, f"{who}: 404")


def page(url, ca, resolved):
    response = requests.get(url, http_version=CurlHttpVersion.V3ONLY, verify=ca, timeout=30, curl_options={CurlOpt.RESOLVE: [resolved]})
    check((response.status_code, response.http_version) == (200, CurlHttpVersion.V3), f"{response.status_code} by version {response.http_version}")
    print(response.text)


if __name__ == "__main__":
    (page if len(sys.argv) > 3 else main)(*sys.argv[1:])
