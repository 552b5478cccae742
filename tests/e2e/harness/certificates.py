"""Certificates made by the openssl command, mounted as a Secret is, and the HTTP/1.1 client over TLS."""

import os
import socket
import ssl
import subprocess

from .http1 import Client


class Authority:
    """A CA in a folder, and what it has issued there. Keys are EC: they are made in no time."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.file, self.key = self._make(name, "-addext", "basicConstraints=critical,CA:TRUE")
        self.issued = {}

    def _make(self, name, *more):
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
             "-subj", f"/CN={name}", "-out", cert, "-keyout", key, *more],
            check=True, capture_output=True, timeout=60,
        )
        return cert, key

    def issue(self, name, sans):
        """(certificate, key): files of a certificate whose CN is the name; made once. sans: "DNS:a.test"."""
        if name not in self.issued:
            self.issued[name] = self._make(
                name, "-CA", self.file, "-CAkey", self.key, "-addext", f"subjectAltName={sans}",
                "-addext", "basicConstraints=critical,CA:FALSE",
            )
        return self.issued[name]


def local_pair(folder):
    """(certificate, key) for localhost, from a CA that nobody knows."""
    return Authority(folder).issue("localhost", "DNS:localhost,IP:127.0.0.1")


class Mount:
    """A folder as Kubernetes mounts a Secret: each file is a symlink through ..data, which is swapped for all at once."""

    def __init__(self, folder, **files):
        self.folder, self.number = folder, 0
        folder.mkdir()
        self.names = [name.replace("_", ".") for name in files]
        self.swap(**files)
        for name in self.names:
            os.symlink(f"..data/{name}", folder / name)

    def swap(self, **files):
        """tls_crt=FILE, or bytes: tls.crt has that content from now on."""
        self.number += 1
        data = self.folder / f"..{self.number}"
        data.mkdir()
        for name, content in files.items():
            content = content if isinstance(content, bytes) else content.read_bytes()
            (data / name.replace("_", ".")).write_bytes(content)
        os.symlink(data.name, self.folder / "..data_tmp")
        os.replace(self.folder / "..data_tmp", self.folder / "..data")

    def __truediv__(self, name):
        return str(self.folder / name)


def tls_options(pair, *more, ca=None):
    """listeners[].tls of the configuration: the pairs are (certificate, key)."""
    def option(files):
        return {"certFile": str(files[0]), "keyFile": str(files[1])}

    options = option(pair)
    if more:
        options["certificates"] = [option(files) for files in more]
    if ca:
        options["clientCaFile"] = str(ca)
    return options


def client_context(ca, cert=None, version=None, alpn=("http/1.1",)):
    """What a client believes and presents. `version`: this one only."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    context.check_hostname = False
    if cert:
        context.load_cert_chain(*cert)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    if version:
        context.minimum_version = context.maximum_version = version
    return context


class TlsClient(Client):
    """The client of http1 over TLS. `ended`: how the peer ended it: "notify" (close_notify), "cut" (without) or None."""

    def __init__(self, port, context, name="a.test", timeout=30, session=None, **kw):
        super().__init__(port, timeout, **kw)
        self.ended = None
        try:
            self.sock = context.wrap_socket(
                self.sock, server_hostname=name, session=session, suppress_ragged_eofs=False
            )
        except BaseException:
            self.close()
            raise

    @property
    def served(self):
        """CN of the certificate that the server showed."""
        return dict(item for (item,) in self.sock.getpeercert()["subject"])["commonName"]

    def recv(self, n=262144):
        try:
            octets = self.sock.recv(n)
        except socket.timeout:
            raise
        except (ssl.SSLError, ConnectionResetError) as error:
            self.ended = "cut"
            self.reset = isinstance(error, ConnectionResetError)
            return b""
        if not octets:
            self.ended = "notify"
        return octets
