"""Certificates, and a port with TLS before a port without it.

Knows X.509 and sockets; nothing of what goes through.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ssl
import threading
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography.x509 import Certificate, Name

_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
DAY = dt.timedelta(days=1)


class Authority:
    """One that signs certificates of this machine; `file` has its own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._name = _name("authority of the tests")
        self._key = ec.generate_private_key(ec.SECP256R1())
        uses = dict.fromkeys(_USES, False) | {"key_cert_sign": True, "digital_signature": True}
        certificate = _signed(
            self._name,
            self._key,
            self._name,
            self._key,
            x509.BasicConstraints(True, 0),
            x509.KeyUsage(**uses),
        )
        self.file = directory / "authority.pem"
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def server(self, name: str, *, itself: bool = False) -> ssl.SSLContext:
        """The context of a server at `localhost` with a certificate of ours, or signed by itself."""
        key, subject = ec.generate_private_key(ec.SECP256R1()), _name(name)
        issuer, signing = (subject, key) if itself else (self._name, self._key)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        certificate = _signed(subject, key, issuer, signing, names)
        file = self._directory / f"{name}.pem"
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(secret + certificate.public_bytes(Encoding.PEM))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(file)
        return context


def _name(text: str) -> Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _signed(
    subject: Name,
    key: ec.EllipticCurvePrivateKey,
    issuer: Name,
    signing: ec.EllipticCurvePrivateKey,
    *extensions: x509.ExtensionType,
) -> Certificate:
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number(), now - DAY, now + DAY
    )
    for extension in (
        *extensions,
        # Without these Python's own strict check refuses it (RFC 5280, 4.2.1).
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()),
    ):
        critical = isinstance(extension, x509.BasicConstraints | x509.KeyUsage)
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signing, hashes.SHA256())


@contextlib.contextmanager
def tls_before(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """A port of 127.0.0.1 with TLS; what comes goes on to `port`."""

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, asking = await asyncio.open_connection("127.0.0.1", port)
            both = _pump(reader, asking), _pump(there, writer)
            await asyncio.gather(*both, return_exceptions=True)

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        found.append(server.sockets[0].getsockname()[1])
        started.set()
        await ended.wait()
        server.close()

    loop, started, found = asyncio.new_event_loop(), threading.Event(), list[int]()
    ended = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(main()), daemon=True)
    thread.start()
    started.wait()
    try:
        yield found[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()


async def _pump(reader: StreamReader, writer: StreamWriter) -> None:
    try:
        while piece := await reader.read(64 * 1024):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()
