//! HTTP/2 on a client's connection (RFC 9113).

use std::rc::Rc;

use crate::conn::Conn;
use crate::transport::Transport;
use crate::worker::Worker;

/// Serves streams until the connection ends.
pub async fn serve(_transport: Rc<Transport>, _conn: Rc<Conn>, _worker: Rc<Worker>) {}
