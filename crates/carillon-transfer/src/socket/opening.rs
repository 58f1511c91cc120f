//! Opening of a socket in one of its roles.

use std::sync::atomic::{AtomicU64, Ordering};

use super::inbound::Listener;
use super::outbound::{JoinedOutbound, Outbound};
use super::settings::ToBind;
use crate::daemon::{program, settings};
use crate::end::End;
use crate::{Error, ReceiveOptions};

impl End<ToBind> {
    /// Opens a session as its sender and waits until the receivers have joined.
    pub fn connect(self) -> Result<Outbound, Error> {
        Outbound::begin(self)?.started()
    }

    /// Opens a session as its sender and awaits the receivers.
    pub async fn connect_async(self) -> Result<Outbound, Error> {
        Outbound::begin(self)?.started_async().await
    }

    /// Waits for a session of peers that another end opens, and joins it as a further sender. To receive the other
    /// peers' messages, [`listen`](Self::listen) with a second socket of another name.
    pub fn join(self) -> Result<JoinedOutbound, Error> {
        JoinedOutbound::begin(self.with_name())?.started()
    }

    /// Awaits a session of peers and joins it as a further sender.
    pub async fn join_async(self) -> Result<JoinedOutbound, Error> {
        JoinedOutbound::begin(self.with_name())?.started_async().await
    }

    /// Ensures a unique name, as a host and a process may have many sockets.
    fn with_name(self) -> Self {
        static SOCKETS: AtomicU64 = AtomicU64::new(0);
        let Some(name) = self.network.second_name() else { return self };
        match SOCKETS.fetch_add(1, Ordering::Relaxed) {
            0 => self.name(name),
            number => self.name(format!("{name}-{number}")),
        }
    }

    /// Opens the sockets, ready to receive from any sender that opens a session.
    pub fn listen(self) -> Result<Listener, Error> {
        let socket = self.with_name();
        if let Some(path) = &socket.what.daemon {
            let line = program::listen(path, &settings::told(&socket)?)?;
            return Ok(Listener::through(line));
        }
        let End { network, what } = socket;
        let bound = network.open(true, 1, None)?;
        let options = ReceiveOptions {
            timeout: what.options.timeout,
            keep_seeking: true,
            attached: what.attached,
            monitor: what.options.monitor,
            ..ReceiveOptions::default()
        };
        Ok(Listener::here(network, bound, options))
    }
}
