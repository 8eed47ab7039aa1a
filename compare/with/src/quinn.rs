//! quinn: QUIC sets a timer with almost every packet. This is quinn's runtime for tokio, with the
//! timers of a wheel.
//!
//! A connection has one timer, in one box, which is reset and seldom over. A reset to later costs
//! one lock and one store, and reads no clock.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tickwheel::{Scheduler, Sleep};

/// Tasks and sockets of tokio, timers of a wheel.
#[derive(Clone, Debug)]
pub struct WheelRuntime {
    scheduler: Scheduler,
}

impl WheelRuntime {
    pub fn new(wheel: impl Into<Scheduler>) -> WheelRuntime {
        WheelRuntime { scheduler: wheel.into() }
    }
}

impl Runtime for WheelRuntime {
    fn new_timer(&self, deadline: Instant) -> Pin<Box<dyn AsyncTimer>> {
        Box::pin(Timer(self.scheduler.sleep_until(deadline)))
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        TokioRuntime.spawn(future);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.scheduler.now()
    }
}

#[derive(Debug)]
struct Timer(Sleep);

impl AsyncTimer for Timer {
    fn reset(mut self: Pin<&mut Self>, deadline: Instant) {
        self.0.reset_at(deadline);
    }

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn::rustls::RootCertStore;
    use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
    use quinn::{
        ClientConfig, ConnectionError, Endpoint, EndpointConfig, ServerConfig, TransportConfig,
    };
    use std::time::Duration;
    use tickwheel::Wheel;

    /// A connection that has no packet for this time is closed.
    const IDLE: Duration = Duration::from_millis(400);

    fn configs() -> (ServerConfig, ClientConfig) {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = issued.cert.der().clone();
        let key = PrivatePkcs8KeyDer::from(issued.signing_key.serialize_der());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(Some(IDLE.try_into().unwrap()));
        let transport = Arc::new(transport);
        let mut server = ServerConfig::with_single_cert(vec![certificate], key.into()).unwrap();
        server.transport_config(Arc::clone(&transport));
        let mut client = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        client.transport_config(transport);
        (server, client)
    }

    #[test]
    fn a_connection_is_used_and_then_idle() {
        let wheel = Wheel::new();
        let runtime = Arc::new(WheelRuntime::new(&wheel));
        let endpoint = |server| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let runtime = Arc::clone(&runtime) as Arc<dyn Runtime>;
            Endpoint::new(EndpointConfig::default(), server, socket, runtime).unwrap()
        };
        let (server_config, client_config) = configs();
        // Without `enable_time`: no timer of tokio is used.
        let tokio = ::tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        tokio.block_on(async {
            let (server, client) = (endpoint(Some(server_config)), endpoint(None));
            let address = server.local_addr().unwrap();
            let serves = ::tokio::spawn(async move {
                let connection = server.accept().await.unwrap().await.unwrap();
                let (mut send, mut receive) = connection.accept_bi().await.unwrap();
                send.write_all(&receive.read_to_end(100).await.unwrap()).await.unwrap();
                send.finish().unwrap();
                connection.closed().await
            });
            let begin = Instant::now();
            let connection =
                client.connect_with(client_config, address, "localhost").unwrap().await.unwrap();
            let (mut send, mut receive) = connection.open_bi().await.unwrap();
            send.write_all(b"hello").await.unwrap();
            send.finish().unwrap();
            assert_eq!(receive.read_to_end(100).await.unwrap(), b"hello");
            assert!(wheel.stats().sleeping > 0, "its timer is on the wheel");
            // Neither end sends anything more, and both give up.
            assert_eq!(connection.closed().await, ConnectionError::TimedOut);
            assert_eq!(serves.await.unwrap(), ConnectionError::TimedOut);
            assert!(begin.elapsed() >= IDLE);
        });
    }
}
