//! Many connections that do nothing: what they cost the server is read by whoever started us.

use std::io;
use std::rc::Rc;

use super::Load;
use super::connection::Connection;
use super::response::ResponseReader;

/// Handshakes under way at once while the connections are opened.
const OPENING_AT_ONCE: usize = 32;

/// Opens all connections, asks once on each, prints how many stand, and holds them until standard input ends; then prints how many still stood.
pub(super) async fn run(load: Rc<Load>) -> io::Result<()> {
    let mut held = Vec::with_capacity(load.options.connections);
    while held.len() < load.options.connections {
        let wanted = (load.options.connections - held.len()).min(OPENING_AT_ONCE);
        let opening: Vec<_> = (0..wanted).map(|_| tokio::task::spawn_local(open(Rc::clone(&load)))).collect();
        for opened in opening {
            held.push(opened.await.map_err(io::Error::other)??);
        }
    }
    println!("{}", serde_json::json!({ "held": held.len() }));
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = ended.send(());
    });
    let _ = end.await;
    let still_held = held.iter_mut().filter_map(|connection| connection.is_idle().then_some(())).count();
    println!("{}", serde_json::json!({ "still_held": still_held }));
    Ok(())
}

async fn open(load: Rc<Load>) -> io::Result<Connection> {
    let mut connection = Connection::open(load.options.address, load.tls.as_ref()).await?;
    connection.send(&load.request).await?;
    connection.receive(&mut ResponseReader::default()).await?;
    Ok(connection)
}
