// Java's HttpClient. Usage: java Fetch.java URL CA; exits with 0 if all went well.
import java.io.ByteArrayInputStream;
import java.net.CookieManager;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

public class Fetch {
  static String base;
  static HttpClient client;

  public static void main(String[] arguments) throws Exception {
    base = arguments[0];
    KeyStore roots = KeyStore.getInstance(KeyStore.getDefaultType());
    roots.load(null);
    byte[] pem = Files.readAllBytes(Path.of(arguments[1]));
    roots.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(pem)));
    TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(roots);
    SSLContext context = SSLContext.getInstance("TLS");
    context.init(null, trust.getTrustManagers(), null);
    for (HttpClient.Version version : HttpClient.Version.values()) {
      client = HttpClient.newBuilder().sslContext(context).version(version).cookieHandler(new CookieManager())
          .followRedirects(HttpClient.Redirect.NORMAL).connectTimeout(Duration.ofSeconds(30)).build();
      everything(version);
    }
  }

  static void everything(HttpClient.Version version) throws Exception {
    HttpResponse<byte[]> first = send("GET", "/echo?a=1&b=%20", null, 200);
    expect(version, first.version());
    for (String method : new String[] {"PUT", "PATCH", "DELETE", "OPTIONS", "POST"}) {
      expect(true, text(send(method, "/echo", BodyPublishers.ofString("{\"a\":[1,2]}"), 200)).contains("\"method\":\"" + method + "\""));
    }
    HttpResponse<byte[]> head = send("HEAD", "/file", null, 200);
    expect("1048576", head.headers().firstValue("content-length").orElse(""));
    byte[] big = new byte[3_000_000];
    // Of unknown length, then one that waits for 100.
    BodyPublisher unknown = BodyPublishers.ofInputStream(() -> new ByteArrayInputStream(big));
    expect(true, text(send("POST", "/echo", unknown, 200)).contains("\"length\":3000000"));
    HttpRequest patient = request("/echo").PUT(BodyPublishers.ofByteArray(big)).expectContinue(true).build();
    expect(200, client.send(patient, BodyHandlers.ofByteArray()).statusCode());
    expect(true, text(send("GET", "/redirect?code=302", null, 200)).contains("/echo?redirected"));
    expect(true, text(send("POST", "/redirect?code=307", BodyPublishers.ofString("again"), 200)).contains("POST"));
    expect(true, text(send("POST", "/redirect?code=303", BodyPublishers.ofString("once"), 200)).contains("GET"));
    HttpResponse<byte[]> part = client.send(request("/file").header("Range", "bytes=100-199").build(), BodyHandlers.ofByteArray());
    expect(206, part.statusCode());
    expect(100, part.body().length);
    send("GET", "/status?code=204", null, 204);
    expect(200_000, send("GET", "/bytes?n=200000&chunked=1", null, 200).body().length);
    expect("0", text(send("GET", "/cookies", null, 200)));
    expect("8000", text(send("GET", "/cookies", null, 200)));
    for (int n = 0; n < 100; n++) {
      send("GET", "/echo", null, 200);
    }
    List<CompletableFuture<HttpResponse<byte[]>>> together = new ArrayList<>();
    for (int n = 0; n < 100; n++) {
      together.add(client.sendAsync(request("/tile?ms=20").build(), BodyHandlers.ofByteArray()));
    }
    for (CompletableFuture<HttpResponse<byte[]>> one : together) {
      expect(200, one.get().statusCode());
    }
  }

  static HttpRequest.Builder request(String target) {
    return HttpRequest.newBuilder(URI.create(base + target)).timeout(Duration.ofSeconds(60));
  }

  static HttpResponse<byte[]> send(String method, String target, BodyPublisher body, int status) throws Exception {
    HttpRequest request = request(target).method(method, body == null ? BodyPublishers.noBody() : body).build();
    HttpResponse<byte[]> response = client.send(request, BodyHandlers.ofByteArray());
    if (response.statusCode() != status) {
      throw new AssertionError(method + " " + target + ": " + response.statusCode() + " " + text(response));
    }
    return response;
  }

  static String text(HttpResponse<byte[]> response) {
    return new String(response.body());
  }

  static void expect(Object wanted, Object got) {
    if (!wanted.equals(got)) {
      throw new AssertionError("wanted " + wanted + ", got " + got);
    }
  }
}
