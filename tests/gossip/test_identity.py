"""Who has signed what, judged by certificates as OpenSSL makes them."""

import datetime
import subprocess

import pytest
from authority import Authority, identities

from dimargin.gossip.identity import Identity
from dimargin.gossip.links import LinkError
from dimargin.gossip.tls_certificates import Tls

KEYS = {
    "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"], "ed25519": ["ed25519"],
}  # fmt: skip


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture
def pki(tmp_path):
    """A folder with an authority, and a function that makes a certificate, by the authority or somebody else."""
    make_key = ["req", "-nodes", "-newkey"]
    openssl(*make_key, "rsa:2048", "-x509", "-keyout", f"{tmp_path}/ca.key", "-out", f"{tmp_path}/ca.pem", "-subj",
            "/CN=authority")  # fmt: skip

    def make(name, kind="ec", by="ca", extension="basicConstraints=CA:FALSE"):
        at = f"{tmp_path}/{name}"
        (tmp_path / "extension").write_text(extension)
        openssl(*make_key, *KEYS[kind], "-keyout", f"{at}.key", "-out", f"{at}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{at}.csr", "-CA", f"{tmp_path}/{by}.pem", "-CAkey", f"{tmp_path}/{by}.key",
                "-CAcreateserial", "-days", "1", "-out", f"{at}.pem", "-extfile", f"{tmp_path}/extension")  # fmt: skip
        if by != "ca":
            with open(f"{at}.pem", "ab") as file:
                file.write((tmp_path / f"{by}.pem").read_bytes())
        return Tls(f"{at}.pem", f"{at}.key", tmp_path / "ca.pem", [])

    return make


def fault(one, *what):
    with pytest.raises(ValueError) as found:
        one.checked(*what)
    return str(found.value)


@pytest.mark.parametrize("kind", KEYS)
def test_what_a_site_signs_is_its_own(pki, kind):
    north, south = (Identity.of(name, pki(name, kind)) for name in ("north", "south"))
    signature = north.sign(b"row 3")
    assert south.checked("north", north.chain, signature, b"row 3") == north.chain
    assert fault(south, "north", north.chain, signature, b"row 4") == "an invalid signature"
    assert fault(south, "north", north.chain, south.sign(b"row 3"), b"row 3") == "an invalid signature"
    assert fault(south, "north", south.chain, south.sign(b"row 3"), b"row 3") == "a certificate for 'south'"
    assert b"PRIVATE" not in north.chain


def test_authorities_in_between(pki):
    pki("region", "rsa", extension="basicConstraints=critical,CA:TRUE")
    north, east = Identity.of("north", pki("north", by="region")), Identity.of("east", pki("east"))
    assert east.checked("north", north.chain, north.sign(b"x"), b"x") == north.chain
    assert east.checked("north", north.chain + east.chain * 2, north.sign(b"x"), b"x") == north.chain
    assert north.checked("east", east.chain + north.chain, east.sign(b"x"), b"x") == east.chain
    with pytest.raises(LinkError, match=r"not issued.*basicConstraints"):
        Identity.of("eve", pki("eve", by="east"))  # a member is no authority


def test_an_authority_in_between_that_was_renewed(tmp_path):
    """It is younger than the certificates that it has signed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding

    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "region", "north")}
    day = datetime.datetime(2025, 1, 1, tzinfo=datetime.UTC)

    def certificate(name, by, age):
        subject, issuer = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)]) for text in (name, by))
        builder = x509.CertificateBuilder(issuer, subject, keys[name].public_key(), x509.random_serial_number())
        began = day - datetime.timedelta(days=age)
        builder = builder.not_valid_before(began).not_valid_after(day + datetime.timedelta(days=30))
        builder = builder.add_extension(x509.BasicConstraints(name != "north", None), critical=True)
        return builder.sign(keys[by], hashes.SHA256())

    chain = [certificate("north", "region", 90), certificate("region", "root", 5)]
    north = Identity("north", b"".join(one.public_bytes(Encoding.PEM) for one in chain), keys["north"],
                     (certificate("root", "root", 900),))  # fmt: skip
    assert north.checked("north", north.chain, north.sign(b"x"), b"x") == north.chain


def test_an_authority_with_an_ed25519_key():
    north, south = identities("north", "south").values()
    assert south.checked("north", north.chain, north.sign(b"x"), b"x") == north.chain


def test_those_of_another_authority_are_nobodys(tmp_path):
    north = identities("north")["north"]
    other = identities("north", authority="another")["north"]
    assert "has not issued" in fault(north, "north", other.chain, other.sign(b"x"), b"x")


def test_dates_do_not_count(tmp_path):
    authority = Authority(tmp_path, "authority")
    late = Identity.of("north", Tls(*authority.member("north", days=-1), authority.path, []))
    south = Identity.of("south", Tls(*authority.member("south"), authority.path, []))
    assert south.checked("north", late.chain, late.sign(b"x"), b"x") == late.chain


@pytest.mark.parametrize("chain", [b"", b"x", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_bytes_that_are_no_certificate(chain):
    north = identities("north")["north"]
    assert "has not issued" in fault(north, "north", chain, b"", b"x")


def test_files_that_do_not_serve(tmp_path):
    authority = Authority(tmp_path, "authority")
    own, other = authority.member("north"), authority.member("south")
    broken = tmp_path / "broken"
    broken.write_bytes(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
    for tls, words in (
        (Tls(own[0], other[1], authority.path, []), "an invalid signature"),
        (Tls(*other, authority.path, []), "a certificate for 'south'"),
        (Tls(own[0], broken, authority.path, []), "broken cannot be used"),
        (Tls(broken, own[1], authority.path, []), "broken cannot be used"),
        (Tls(*own, tmp_path / "none", []), "none cannot be used"),
    ):
        with pytest.raises(LinkError, match=f"site north: .*{words}"):
            Identity.of("north", tls)
