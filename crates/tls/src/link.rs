//! What the library's callbacks reach from one session: the buffers lent for the current call, and the handshake's state.
//!
//! Each session has one [`Link`], owned by its BIO and therefore freed with it. All its fields are cells, so callbacks and the session share it by
//! reference without ever holding a unique one. It decides nothing; what the callbacks decide stands in `acceptor`, `connector` and `tickets`.

use crate::chooser::Chooser;
use crate::ffi::Owned;
use crate::flight::Flight;
use crate::remote::Remote;
use crate::{Alert, ClientAuth, Error, KeyType, Policy, TicketKeys};
use aws_lc_sys as sys;
use std::cell::Cell;
use std::net::IpAddr;
use std::os::raw::{c_char, c_int, c_long, c_void};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::{Arc, Mutex, OnceLock};
use wire::ja4::Ja4;

/// Post-handshake messages a peer may send without application data between them: far above what RFC 8446 §4.6 has a use for.
const MAX_CONTROL_MESSAGES: u8 = 32;

/// What a server session needs until its handshake is over.
pub(crate) struct Opening {
    pub(crate) chooser: Arc<dyn Chooser + Send + Sync>,
    /// Keys for this handshake's tickets.
    pub(crate) tickets: Arc<TicketKeys>,
    pub(crate) chosen: Option<Chosen>,
    /// The handshake has been suspended for a certificate, and is not suspended again.
    pub(crate) has_waited: bool,
}

/// A choice that was made, as far as the handshake still asks for it.
pub(crate) struct Chosen {
    pub(crate) alpn: Arc<[Vec<u8>]>,
    pub(crate) client_auth: Option<Arc<ClientAuth>>,
    /// How strong the client's chain must be.
    pub(crate) policy: Policy,
    /// The choice's context and the client-certificate rule in one.
    pub(crate) ticket_context: [u8; 32],
}

/// Whom the server's certificate must name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerName {
    /// A DNS name: sent as SNI and checked.
    Dns(String),
    /// An address: checked, and no SNI sent (RFC 6066 §3).
    Ip(IpAddr),
}

/// The last session and whom it was with.
pub(crate) type LastSession = Mutex<Option<(ServerName, Owned<sys::SSL_SESSION>)>>;

/// Where a client session leaves what may be resumed.
pub(crate) struct Origin {
    pub(crate) name: ServerName,
    pub(crate) last: Arc<LastSession>,
}

/// The state that callbacks share with their session.
#[derive(Default)]
pub(crate) struct Link {
    /// What is left of the caller's input; empty outside a call.
    input: Cell<&'static [u8]>,
    /// The caller's output; none outside a call.
    output: Cell<Option<NonNull<Vec<u8>>>>,
    /// The handshake is over; from here on messages are counted.
    established: Cell<bool>,
    /// Post-handshake messages since the last application data.
    control_messages: Cell<u8>,
    /// Kind of key the server side proves itself with.
    pub(crate) key_type: Cell<Option<KeyType>>,
    /// What the algorithms of our identity's leaf are called.
    pub(crate) algorithms: Cell<crate::identity::Algorithms>,
    /// Server side, until the handshake is over.
    pub(crate) opening: Cell<Option<Box<Opening>>>,
    /// Client side: where new sessions are kept for resumption.
    pub(crate) origin: Option<Box<Origin>>,
    /// Server side, until the handshake is over: the identity's key, if it is elsewhere.
    pub(crate) remote: Cell<Option<Box<Remote>>>,
    /// Server side: the name whose certificate the handshake waits for, until somebody takes it.
    pub(crate) awaited: Cell<Option<Box<str>>>,
    /// The alert that was written last.
    pub(crate) alert: Cell<Option<Alert>>,
    /// Server side: the client's fingerprint, where it is wanted.
    pub(crate) fingerprint: Cell<Option<Box<Ja4>>>,
    /// Why a callback ended the handshake.
    pub(crate) rejection: Cell<Option<Error>>,
    /// Under QUIC: what the library has for the connection. The BIO carries nothing then.
    pub(crate) flight: Option<Box<Flight>>,
}

impl Link {
    /// The link of a server session.
    pub(crate) fn server(opening: Opening) -> Link {
        Link { opening: Cell::new(Some(Box::new(opening))), ..Link::default() }
    }

    /// The link of a client session.
    pub(crate) fn client(origin: Origin) -> Link {
        Link { origin: Some(Box::new(origin)), ..Link::default() }
    }

    /// The same of a session under QUIC.
    pub(crate) fn over_quic(self) -> Link {
        Link { flight: Some(Box::default()), ..self }
    }

    /// The link of a session; none for one that has no BIO of ours yet.
    ///
    /// # Safety
    /// `ssl` is null or live, made by [`attach`], and the result is not used after `ssl` is freed.
    pub(crate) unsafe fn of<'a>(ssl: *const sys::SSL) -> Option<&'a Link> {
        if ssl.is_null() {
            return None;
        }
        // SAFETY: `ssl` is live; its BIO, if any, is ours and carries a link until it is freed.
        unsafe {
            let bio = sys::SSL_get_rbio(ssl);
            if bio.is_null() { None } else { Link::of_bio(bio) }
        }
    }

    /// # Safety
    /// `bio` is live and was made by [`attach`].
    unsafe fn of_bio<'a>(bio: *mut sys::BIO) -> Option<&'a Link> {
        // SAFETY: the BIO's data is null or the box leaked in `attach`, freed with the BIO; only shared references to it are ever made.
        unsafe { sys::BIO_get_data(bio).cast::<Link>().as_ref() }
    }

    /// Lends the caller's buffers to the library for the length of `call`, and advances `input` past what was taken.
    pub(crate) fn lend<R>(&self, input: &mut &[u8], output: &mut Vec<u8>, call: impl FnOnce() -> R) -> R {
        /// Takes the buffers back, however the call ends.
        struct Lent<'a>(&'a Link);
        impl Drop for Lent<'_> {
            fn drop(&mut self) {
                self.0.input.set(&[]);
                self.0.output.set(None);
            }
        }
        // SAFETY: the lifetime is extended for the call only: `Lent` takes the slice back before `lend` returns, and the only other
        // reader, `bio_read`, copies from it during the call.
        self.input.set(unsafe { slice::from_raw_parts(input.as_ptr(), input.len()) });
        self.output.set(Some(NonNull::from(output)));
        let lent = Lent(self);
        let result = call();
        let left = self.input.get().len();
        drop(lent);
        *input = &input[input.len() - left..];
        result
    }

    /// Works on the state of a remote key; none if the key is local or the handshake is over.
    pub(crate) fn with_remote<R>(&self, work: impl FnOnce(&mut Remote) -> R) -> Option<R> {
        let mut remote = self.remote.take()?;
        let result = work(&mut remote);
        self.remote.set(Some(remote));
        Some(result)
    }

    /// The client's fingerprint, where it is wanted.
    pub(crate) fn fingerprint(&self) -> Option<Box<Ja4>> {
        let fingerprint = self.fingerprint.take();
        self.fingerprint.set(fingerprint.clone());
        fingerprint
    }

    /// From here on the peer's handshake messages are counted.
    pub(crate) fn establish(&self) {
        self.established.set(true);
    }

    /// Whether the handshake is over.
    pub(crate) fn is_established(&self) -> bool {
        self.established.get()
    }

    /// Application data arrived: post-handshake messages may come again.
    pub(crate) fn saw_data(&self) {
        self.control_messages.set(0);
    }

    /// Whether the peer sent more post-handshake messages than anyone needs. Then no more input is read.
    pub(crate) fn is_flooded(&self) -> bool {
        self.control_messages.get() > MAX_CONTROL_MESSAGES
    }
}

/// Gives `ssl` a BIO of ours that carries `link`.
///
/// # Errors
/// Out of memory.
pub(crate) fn attach(ssl: &Owned<sys::SSL>, link: Link) -> Result<(), Error> {
    let method = method().ok_or_else(|| Error::Ours("out of memory".into()))?;
    // SAFETY: the method lives for ever. The BIO takes over the box (freed by `bio_destroy`), and the session takes over the BIO:
    // with both arguments equal `SSL_set_bio` takes one reference.
    unsafe {
        let bio = Owned::from_raw(sys::BIO_new(method.0), "making a BIO")?;
        sys::BIO_set_data(bio.as_ptr(), Box::into_raw(Box::new(link)).cast());
        sys::BIO_set_init(bio.as_ptr(), 1);
        let bio = bio.into_raw();
        sys::SSL_set_bio(ssl.as_ptr(), bio, bio);
    }
    Ok(())
}

/// Counts the peer's messages after the handshake, and keeps the alert that was written. `SSL_CTX_set_msg_callback`.
pub(crate) unsafe extern "C" fn see_message(
    is_write: c_int,
    _version: c_int,
    content_type: c_int,
    message: *const c_void,
    len: usize,
    ssl: *mut sys::SSL,
    _argument: *mut c_void,
) {
    // SAFETY: the library calls with a live session of ours.
    let Some(link) = (unsafe { Link::of(ssl) }) else { return };
    if is_write != 0 && content_type == sys::SSL3_RT_ALERT && len == 2 {
        // SAFETY: the message is `len` readable bytes: level and description (RFC 8446 §6).
        link.alert.set(Some(Alert(unsafe { *message.cast::<u8>().add(1) })));
    } else if is_write == 0 && content_type == sys::SSL3_RT_HANDSHAKE && link.established.get() {
        link.control_messages.set(link.control_messages.get().saturating_add(1));
    }
}

/// The BIO method all sessions share.
struct Method(*mut sys::BIO_METHOD);

// SAFETY: filled in before it is shared and never changed or freed afterwards.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

fn method() -> Option<&'static Method> {
    static METHOD: OnceLock<Option<Method>> = OnceLock::new();
    METHOD
        .get_or_init(|| {
            // SAFETY: plain set-up calls on a method that nobody else knows yet; the functions match what the library expects of them.
            unsafe {
                let method = sys::BIO_meth_new(sys::BIO_TYPE_SOURCE_SINK, c"lent buffers".as_ptr());
                let complete = !method.is_null()
                    && sys::BIO_meth_set_read(method, Some(bio_read)) == 1
                    && sys::BIO_meth_set_write(method, Some(bio_write)) == 1
                    && sys::BIO_meth_set_ctrl(method, Some(bio_ctrl)) == 1
                    && sys::BIO_meth_set_destroy(method, Some(bio_destroy)) == 1;
                complete.then_some(Method(method))
            }
        })
        .as_ref()
}

/// Gives the library what it asks for out of the lent input; asks it to come back when there is none.
unsafe extern "C" fn bio_read(bio: *mut sys::BIO, into: *mut c_char, len: c_int) -> c_int {
    // SAFETY: the library calls with a live BIO of ours and `len` writable bytes at `into`, which never overlap the caller's input.
    unsafe {
        sys::BIO_clear_retry_flags(bio);
        let Some(link) = Link::of_bio(bio) else { return -1 };
        if link.is_flooded() {
            return -1;
        }
        let input = link.input.get();
        let taken = input.len().min(usize::try_from(len).unwrap_or(0));
        if taken == 0 {
            sys::BIO_set_retry_read(bio);
            return -1;
        }
        ptr::copy_nonoverlapping(input.as_ptr(), into.cast(), taken);
        link.input.set(&input[taken..]);
        // `taken` is at most `len`.
        taken as c_int
    }
}

/// Appends what the library wrote to the lent output.
unsafe extern "C" fn bio_write(bio: *mut sys::BIO, from: *const c_char, len: c_int) -> c_int {
    // SAFETY: the library calls with a live BIO of ours and `len` readable bytes at `from`. The output was lent uniquely for this call
    // by `lend`, whose caller does not touch it meanwhile, and no other reference to it is made while this one lives.
    unsafe {
        sys::BIO_clear_retry_flags(bio);
        let Some(mut output) = Link::of_bio(bio).and_then(|link| link.output.get()) else { return -1 };
        let Ok(count) = usize::try_from(len) else { return -1 };
        output.as_mut().extend_from_slice(slice::from_raw_parts(from.cast(), count));
        len
    }
}

/// Flushing succeeds, since nothing is held back; no other control is known.
unsafe extern "C" fn bio_ctrl(_bio: *mut sys::BIO, command: c_int, _number: c_long, _pointer: *mut c_void) -> c_long {
    c_long::from(command == sys::BIO_CTRL_FLUSH)
}

unsafe extern "C" fn bio_destroy(bio: *mut sys::BIO) -> c_int {
    // SAFETY: called once, when the last reference to a BIO of ours goes; its data is null or the box leaked in `attach`.
    unsafe {
        let link = sys::BIO_get_data(bio).cast::<Link>();
        if !link.is_null() {
            sys::BIO_set_data(bio, ptr::null_mut());
            drop(Box::from_raw(link));
        }
    }
    1
}
