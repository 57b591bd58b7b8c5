//! A connection to the store: who we are is said at its beginning, and replies are read within bounds.

use transport::Transport;
use wire::resp::{Reply, put_command, read};

use crate::policies::RateStore;
use crate::upstream::{Target, connect};

/// Bytes that may have come and are no whole reply yet.
const MAX_WAITING_BYTES: usize = 64 * 1024;

/// A connection.
pub(super) struct Link {
    transport: Transport,
    /// What has come and was not read yet.
    input: Vec<u8>,
}

impl Link {
    /// Connects, shows user and password, and chooses the database.
    ///
    /// # Errors
    /// What went wrong, for the log. No secret is in it.
    pub(super) async fn open(store: &RateStore) -> Result<Link, String> {
        let (group, config) = (&store.group, &store.config);
        group.resolved(config.options.timeout).await;
        // All nodes must talk to the same server, so there is no choice among several addresses.
        let server = group.members().servers.first().cloned().ok_or("its name leads to no address")?;
        let transport = connect(Target::own(group, &server)).await.map_err(|error| error.reason().code().to_owned())?;
        let mut link = Link { transport, input: Vec::new() };
        if let Some(password) = &store.password {
            let user = config.user.as_deref().map(str::as_bytes);
            let parts: Vec<&[u8]> =
                [&b"AUTH"[..]].into_iter().chain(user).chain([password.as_str().as_bytes()]).collect();
            match link.ask(&parts).await? {
                Reply::Status(text) if text == "OK" => {}
                // The rest of what it says may repeat the password.
                Reply::Error(text) => return Err(format!("the store does not accept the password: {}", code(&text))),
                _ => return Err("the reply to AUTH is none".to_owned()),
            }
        }
        if config.options.database != 0 {
            let number = config.options.database.to_string();
            link.expect(&[b"SELECT", number.as_bytes()], "OK").await?;
        }
        Ok(link)
    }

    /// Asks for a sign of life.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub(super) async fn ping(&mut self) -> Result<(), String> {
        self.expect(&[b"PING"], "PONG").await
    }

    async fn expect(&mut self, parts: &[&[u8]], status: &str) -> Result<(), String> {
        match self.ask(parts).await? {
            Reply::Status(text) if text == status => Ok(()),
            Reply::Error(text) => Err(format!("the store replied: {}", text.escape_debug())),
            _ => Err(format!("the store replied with something else than {status}")),
        }
    }

    async fn ask(&mut self, parts: &[&[u8]]) -> Result<Reply, String> {
        let mut out = Vec::new();
        put_command(parts, &mut out);
        self.send(&out).await?;
        self.reply().await
    }

    /// Sends commands.
    ///
    /// # Errors
    /// The connection broke.
    pub(super) async fn send(&mut self, commands: &[u8]) -> Result<(), String> {
        self.transport.send(commands).await.map_err(|_| "the connection broke".to_owned())
    }

    /// Reads the next reply.
    ///
    /// # Errors
    /// The connection broke, or what came is no reply within the bounds.
    pub(super) async fn reply(&mut self) -> Result<Reply, String> {
        loop {
            if let Some((reply, length)) = read(&self.input).map_err(|malformed| malformed.to_string())? {
                self.input.drain(..length);
                return Ok(reply);
            }
            if self.input.len() > MAX_WAITING_BYTES {
                return Err("a reply is too long".to_owned());
            }
            let chunk = self.transport.recv().await.map_err(|_| "the connection broke".to_owned())?;
            if chunk.is_empty() {
                return Err("the store closed the connection".to_owned());
            }
            self.input.extend_from_slice(&chunk);
        }
    }
}

/// The code of an error, which is its first word in capitals.
fn code(text: &str) -> &str {
    let word = text.split(' ').next().unwrap_or_default();
    if word.len() <= 16 && word.bytes().all(|byte| byte.is_ascii_uppercase()) { word } else { "an error" }
}
