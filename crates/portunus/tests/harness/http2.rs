//! An HTTP/2 server in the clear, for what an upstream of that kind is to say.

use std::net::{SocketAddr, TcpListener};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;

/// Serves every request by `serve`, for as long as the test runs.
pub fn http2_server<F>(
    serve: impl Fn(http::Request<RecvStream>, SendResponse<Bytes>) -> F + Send + 'static,
) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((request, respond))) = connection.accept().await {
                    // Driven beside the connection, which must go on reading.
                    #[expect(clippy::disallowed_methods, reason = "a server of a test")]
                    tokio::spawn(serve(request, respond));
                }
            }
        });
    });
    address
}
