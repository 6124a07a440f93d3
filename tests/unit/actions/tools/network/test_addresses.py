"""Which addresses are private: every one of the listed ranges, in every way to write it."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbur.actions.tools.web.addresses import private_host, private_range
from sandbur.actions.tools.web.web_url import web_url

KEPT_V4 = [
    "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4", "100.100.100.200/32",
]  # fmt: skip
KEPT_V6 = [
    "::/128", "::1/128", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48",
    "100::/64",
    "2001::/32", "2001:db8::/32", "2002::/16", "fc00::/7", "fd00:ec2::/32", "fe80::/10", "fec0::/10",
    "ff00::/8",
]  # fmt: skip


WIDE = {ord("0") + digit: 0xFF10 + digit for digit in range(10)}


def inside(ranges: list[str]) -> st.SearchStrategy[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    networks = [ipaddress.ip_network(text) for text in ranges]
    return st.sampled_from(networks).flatmap(
        lambda network: st.integers(0, network.num_addresses - 1).map(lambda number: network[number])
    )


def v4_spellings(address: ipaddress.IPv4Address) -> list[str]:
    number, (a, b, c, d) = int(address), address.packed
    return [
        f"{a}.{b}.{c}.{d}", str(number), hex(number), f"0{number:o}", f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}", f"{a}.{number & 0xFFFFFF}", f"{a}.{b}.{number & 0xFFFF}",
        f"{a}.{b}.{c}.{d}.", f"{a}。{b}。{c}。{d}", f"{a}.{b}.{c}.{d}".translate(WIDE),
    ]  # fmt: skip


@given(inside(KEPT_V4))
def test_an_ipv4_address_of_a_kept_range_is_private_in_every_spelling(address: ipaddress.IPv4Address) -> None:
    for spelling in v4_spellings(address):
        assert private_host(web_url(f"http://{spelling}/").host), spelling


@given(inside(KEPT_V6))
def test_an_ipv6_address_of_a_kept_range_is_private_in_every_spelling(address: ipaddress.IPv6Address) -> None:
    long = address.exploded
    for spelling in (
        str(address),
        long,
        long.upper(),
        f"{long[:30]}{ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)}",
    ):
        assert private_host(web_url(f"http://[{spelling}]/").host), spelling


@given(inside(KEPT_V4))
def test_a_private_ipv4_address_stays_private_in_the_clothes_of_ipv6(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    clothes = [
        number, 0xFFFF << 32 | number, 0xFFFF << 48 | number, 0x64FF9B << 96 | number,
        0x64FF9B0001 << 80 | number,
        0x2002 << 112 | number << 80, 0x20010000 << 96 | number ^ 0xFFFFFFFF,
    ]  # fmt: skip
    for one in clothes:
        assert private_range(str(ipaddress.IPv6Address(one)))


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "ip6-localhost", "localhost.localdomain"])
def test_a_name_that_means_this_machine_everywhere_is_private(host: str) -> None:
    assert private_host(host)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]
)
def test_a_public_address_is_public(address: str) -> None:
    assert private_range(address) is None


@pytest.mark.parametrize("text", ["", "x", "fe80::1%eth0", "1.2.3", "127.0.0.1/8"])
def test_what_is_no_address_is_never_dialled(text: str) -> None:
    assert private_range(text)


def test_addresses_that_are_near_are_private_however_they_are_written():
    near = (
        "127.0.0.1 10.0.0.1 192.168.1.1 172.16.0.1 169.254.169.254 100.64.0.1 100.100.100.200 0.0.0.0"
        " 198.18.0.1 168.63.129.16 224.0.0.1 255.255.255.255 ::1 :: fe80::1 fe80::1%eth0 fc00::1"
        " fd00:ec2::254 fec0::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::127.0.0.1 ::ffff:0:127.0.0.1"
        " 64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1::1 2001:0:7f00:1::1 ff02::1 192.0.0.8"
    )
    assert [address for address in near.split() if private_range(address) is None] == []
