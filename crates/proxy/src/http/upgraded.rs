//! What follows an upgrade: bytes both ways between a client and its server, over a connection of HTTP/1.1 or a stream of HTTP/2 or HTTP/3 (RFC 8441 §5,
//! RFC 9220).
//!
//! Owns how the end of one side is shown to the other. What is carried is `pump`'s and `websocket`'s.

use std::future::poll_fn;
use std::time::Duration;

use config::HalfClose;
use net::Chunk;
use reason::{Reason, Side};
use transport::Broken;

use contract::validate::code;

use crate::delivery::{StreamTaken, Terms, cut, while_taken};
use crate::exchange::upstream_h1::Upgraded;
use crate::message::context::Context;
use crate::message::ledger::Ledger;
use crate::message::sides::{TunnelBody, TunnelSink};
use crate::pump::{self, BROKEN_CLIENT_WAIT, Bounds, Carried, End, Sink, Source};
use crate::websocket;

/// Once the client has finished sending, how long its upstream may take nothing of what waits for it.
const FINISHED_CLIENT_WAIT: Duration = Duration::from_secs(10);

/// How the client's side is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With an end of our own.
    Orderly,
    /// With an end of our own, for which nobody waits: nothing moved for too long, or the client was rejected.
    Late,
    /// As something that was cut, once the client has what was sent, of which it must take something within this time, over and over.
    Cut(Duration),
}

/// How long nothing may move.
fn idle_timeout(context: Context<'_>, ledger: &Ledger) -> Duration {
    let limits = context.limits();
    ledger.route.as_ref().map_or(limits.tunnel_idle_timeout, |route| route.tunnel_idle_timeout(limits))
}

/// Carries bytes between a client, who has sent `first` already, and the server that it was upgraded to.
pub async fn carry(
    context: Context<'_>,
    client: (impl Source, impl Sink),
    first: Chunk,
    upgraded: Box<Upgraded>,
    ledger: &mut Ledger,
) -> Ending {
    let carried = Carried::default();
    let Upgraded { transport, first: upstream_first, place, messages } = *upgraded;
    let upstream = (&transport, upstream_first);
    let serves_half_closed = context.conn.listener.options.half_close == HalfClose::Serve;
    let throttles = ledger.throttles.clone();
    let idle = idle_timeout(context, ledger);
    let bounds = Bounds {
        idle,
        until: None,
        finished_client: (!serves_half_closed).then_some(FINISHED_CLIENT_WAIT),
        broken_client: BROKEN_CLIENT_WAIT,
        throttles: &throttles,
    };
    let end = match &messages {
        None => pump::run((client, first), upstream, bounds, &carried).await,
        Some(messages) => {
            let noted = (context, &mut ledger.contract);
            websocket::run((client, first), upstream, bounds, &carried, messages, noted).await
        }
    };
    drop(place);
    ledger.received.set(ledger.received.get() + carried.from_client.get());
    ledger.sent.set(ledger.sent.get() + carried.to_client.get());
    let is_answer = end.is_answer_to(carried.ended_first.get());
    match end {
        End::Finished | End::Expired => Ending::Orderly,
        // A client that leaves without close_notify has left all the same.
        End::ClientCut => {
            cut(&transport, Terms::of_idle(idle, None)).await;
            Ending::Orderly
        }
        End::Rejected => {
            ledger.blame_on(Side::Client, Reason::of_code(code::WEBSOCKET_MESSAGE));
            Ending::Late
        }
        End::Idle => {
            ledger.blame(Reason::TunnelIdle);
            Ending::Late
        }
        End::ClientBroke => {
            if !is_answer {
                ledger.blame(Reason::TunnelClientReset);
            }
            cut(&transport, Terms::of_idle(BROKEN_CLIENT_WAIT, None)).await;
            Ending::Cut(BROKEN_CLIENT_WAIT)
        }
        End::UpstreamBroke | End::UpstreamCut => {
            if !is_answer {
                ledger.blame(Reason::TunnelUpstreamReset);
            }
            Ending::Cut(idle)
        }
    }
}

/// One side was cut, and the stream is to be reset (RFC 8441 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamCut;

/// Carries bytes between a stream of HTTP/2 or HTTP/3 and the server that its request was upgraded to.
///
/// # Errors
/// [`StreamCut`]
pub async fn carry_stream(
    context: Context<'_>,
    (body, answer): (&mut impl TunnelBody, &mut impl TunnelSink),
    upgraded: Box<Upgraded>,
    ledger: &mut Ledger,
) -> Result<(), StreamCut> {
    body.begin_tunnel();
    answer.begin_tunnel(idle_timeout(context, ledger));
    let client = (FromStream { body }, ToStream { answer: &mut *answer });
    match carry(context, client, Chunk::empty(), upgraded, ledger).await {
        Ending::Orderly | Ending::Late => answer.end(None).await.map_err(|_| StreamCut),
        Ending::Cut(idle) => {
            let taken = answer.taken();
            let _ = while_taken(answer.delivered(), &taken, idle).await;
            Err(StreamCut)
        }
    }
}

/// What the client sends on a stream.
struct FromStream<'s, B> {
    body: &'s mut B,
}

impl<B: TunnelBody> Source for FromStream<'_, B> {
    async fn recv(&mut self) -> Result<Chunk, Broken> {
        let broken = || Broken::Socket(std::io::ErrorKind::ConnectionReset.into());
        let Some(piece) = self.body.next().await.map_err(|_| broken())? else {
            // A tunnel ends without fields (RFC 9113 §8.5, RFC 9114 §4.4).
            return if self.body.trailers().is_none() { Ok(Chunk::empty()) } else { Err(broken()) };
        };
        let mut chunk = Chunk::take();
        // No piece is larger than what fits.
        let room = chunk.spare_mut().get_mut(..piece.len()).ok_or_else(broken)?;
        room.copy_from_slice(piece);
        chunk.filled(piece.len());
        Ok(chunk)
    }

    fn ended_orderly(&self) -> bool {
        true
    }

    fn plain(&self) -> Option<&transport::Transport> {
        None
    }
}

/// What the client gets on a stream.
struct ToStream<'s, A> {
    answer: &'s mut A,
}

impl<A: TunnelSink> Sink for ToStream<'_, A> {
    type Taken = StreamTaken;

    fn taken(&self) -> StreamTaken {
        self.answer.taken()
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.answer.piece_now(bytes).await
    }

    async fn finish(&mut self, _closes_next: bool) {
        let _ = self.answer.end(None).await;
    }

    async fn gone(&mut self, _or_finished: bool) {
        // Of the end of a stream nothing is known before what comes ahead of it is read.
        poll_fn(|context| self.answer.poll_gone(context).map(drop)).await;
    }

    fn plain(&self) -> Option<&transport::Transport> {
        None
    }
}
