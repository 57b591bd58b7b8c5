//! Many connections that do nothing: what they cost the server is read by whoever started us.

use std::io;
use std::rc::Rc;

use super::connection::Connection;
use super::response::ResponseReader;
use super::{Load, http3};

/// Handshakes under way at once while the connections are opened.
const OPENING_AT_ONCE: usize = 32;

/// Opens all connections, asks once on each, prints how many stand, and holds them until standard input ends; then prints how many still stood.
pub(super) async fn run(load: Rc<Load>) -> io::Result<()> {
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = ended.send(());
    });
    let still_held =
        if load.options.http3 { http3::hold(load, tell_held, end).await? } else { hold_streams(load, end).await? };
    println!("{}", serde_json::json!({ "still_held": still_held }));
    Ok(())
}

fn tell_held(count: usize) {
    println!("{}", serde_json::json!({ "held": count }));
}

/// The same of HTTP/1.1, up to `end`; gives how many still stood.
async fn hold_streams(load: Rc<Load>, end: impl Future) -> io::Result<usize> {
    let mut held = Vec::with_capacity(load.options.connections);
    while held.len() < load.options.connections {
        let wanted = (load.options.connections - held.len()).min(OPENING_AT_ONCE);
        let opening: Vec<_> = (0..wanted).map(|_| tokio::task::spawn_local(open(Rc::clone(&load)))).collect();
        for opened in opening {
            held.push(opened.await.map_err(io::Error::other)??);
        }
    }
    tell_held(held.len());
    end.await;
    Ok(held.iter_mut().filter_map(|connection| connection.is_idle().then_some(())).count())
}

async fn open(load: Rc<Load>) -> io::Result<Connection> {
    let mut connection = Connection::open(load.options.address, load.tls.as_ref()).await?;
    connection.send(&load.request).await?;
    connection.receive(&mut ResponseReader::of_status(load.options.status)).await?;
    Ok(connection)
}
