//! quinn and h3 as a client of HTTP/3. Usage: http3-client PORT CA; exits with 0 if all went well, and says otherwise what did not.
//!
//! Two connections, the second with the ticket of the first. On each: every method, an upload longer than all windows, trailers both ways, a response that is
//! given up, a move to another port, a hundred requests at once and three hundred in a row.

use std::error::Error;
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::{RequestStream, SendRequest};
use h3_quinn::{BidiStream, OpenStreams};
use http::{HeaderMap, Method, Request, Response};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
type Stream = RequestStream<BidiStream<Bytes>, Bytes>;

const AT_ONCE: usize = 100;
const IN_A_ROW: usize = 300;
const UPLOAD_BYTES: usize = 3_000_000;
const NAME: &str = "localhost";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().collect();
    let [_, port, ca] = &words[..] else { return Err("usage: http3-client PORT CA".into()) };
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?));
    let mut endpoint = Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    endpoint.set_default_client_config(config(ca)?);
    for _ in 0..2 {
        let connection = endpoint.connect(server, NAME)?.await?;
        let (mut driver, client) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
        let driven = tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
        let client = Client { client, base: format!("https://{NAME}:{port}") };
        client.everything(&endpoint).await?;
        drop(client);
        let ended = driven.await?;
        if !ended.is_h3_no_error() {
            return Err(format!("the connection ended: {ended}").into());
        }
    }
    endpoint.wait_idle().await;
    Ok(())
}

/// TLS 1.3 with tickets, trusting one authority.
fn config(ca: &str) -> Outcome<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13])?;
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)))
}

struct Client {
    client: SendRequest<OpenStreams, Bytes>,
    base: String,
}

impl Client {
    async fn everything(&self, endpoint: &Endpoint) -> Outcome<()> {
        for method in [Method::GET, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS] {
            let got = self.echo(method.clone(), "/echo?a=1&b=%20", b"").await?;
            expect("method", method.as_str(), text(&got, "method"))?;
            expect("target", "/echo?a=1&b=%20", text(&got, "target"))?;
        }
        let (head, content) = self.ask(Method::HEAD, "/file", b"").await?;
        expect("length of HEAD", Some("1048576"), field(head.headers(), "content-length"))?;
        expect("content of HEAD", 0, content.len())?;
        expect("/file", 1 << 20, self.ask(Method::GET, "/file", b"").await?.1.len())?;
        expect("status", 404, self.ask(Method::GET, "/status?code=404", b"").await?.0.status().as_u16())?;

        let large = b"0123456789".repeat(UPLOAD_BYTES / 10);
        let got = self.echo(Method::POST, "/echo", &large).await?;
        expect("upload", Some(UPLOAD_BYTES as u64), got["length"].as_u64())?;
        self.trailers().await?;
        self.given_up().await?;

        // The server finds out by itself that the client has moved.
        endpoint.rebind(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?)?;
        for _ in 0..IN_A_ROW {
            expect("in a row", "GET", text(&self.echo(Method::GET, "/echo", b"").await?, "method"))?;
        }
        let requests = (0..AT_ONCE).map(|number| {
            let client = Client { client: self.client.clone(), base: self.base.clone() };
            tokio::spawn(async move {
                let target = format!("/echo?n={number}");
                expect("at once", &*target, text(&client.echo(Method::GET, &target, b"").await?, "target"))
            })
        });
        for request in requests.collect::<Vec<_>>() {
            request.await??;
        }
        Ok(())
    }

    async fn begin(&self, method: Method, target: &str) -> Outcome<Stream> {
        let request = Request::builder().method(method).uri(format!("{}{target}", self.base)).body(())?;
        Ok(self.client.clone().send_request(request).await?)
    }

    async fn ask(&self, method: Method, target: &str, content: &'static [u8]) -> Outcome<(Response<()>, Vec<u8>)> {
        let mut stream = self.begin(method, target).await?;
        if !content.is_empty() {
            stream.send_data(Bytes::from_static(content)).await?;
        }
        stream.finish().await?;
        let response = stream.recv_response().await?;
        Ok((response, read(&mut stream).await?))
    }

    async fn echo(&self, method: Method, target: &str, content: &[u8]) -> Outcome<Value> {
        let mut stream = self.begin(method, target).await?;
        for piece in content.chunks(16_384) {
            stream.send_data(Bytes::copy_from_slice(piece)).await?;
        }
        stream.finish().await?;
        expect("status", 200, stream.recv_response().await?.status().as_u16())?;
        Ok(serde_json::from_slice(&read(&mut stream).await?)?)
    }

    async fn trailers(&self) -> Outcome<()> {
        let mut stream = self.begin(Method::POST, "/trailers").await?;
        stream.send_data(Bytes::from_static(b"body")).await?;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-request-sum", "all".parse()?);
        stream.send_trailers(trailers).await?;
        stream.finish().await?;
        stream.recv_response().await?;
        expect("content before trailers", &b"body"[..], &read(&mut stream).await?)?;
        let trailers = stream.recv_trailers().await?.unwrap_or_default();
        expect("trailers", Some("of all"), field(&trailers, "x-sum"))
    }

    /// A response that is given up concerns no other one.
    async fn given_up(&self) -> Outcome<()> {
        let mut stream = self.begin(Method::GET, "/bytes?n=100000000").await?;
        stream.finish().await?;
        stream.recv_response().await?;
        let some = stream.recv_data().await?.map_or(0, |data| data.remaining());
        expect("a part of what is given up", true, some > 0)?;
        stream.stop_sending(h3::error::Code::H3_REQUEST_CANCELLED);
        drop(stream);
        expect("after it", "GET", text(&self.echo(Method::GET, "/echo", b"").await?, "method"))
    }
}

async fn read(stream: &mut Stream) -> Outcome<Vec<u8>> {
    let mut content = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        content.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Ok(content)
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn field<'m>(fields: &'m HeaderMap, name: &str) -> Option<&'m str> {
    fields.get(name)?.to_str().ok()
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, wanted: T, got: T) -> Outcome<()> {
    match wanted == got {
        true => Ok(()),
        false => Err(format!("{what}: wanted {wanted:?}, got {got:?}").into()),
    }
}
