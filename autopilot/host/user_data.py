"""The text that a virtual machine runs at its first boot: it fetches the pinned host program, which installs itself.

One shell script for every market: the strictest takes 10,000 characters, the text keeps to 4,096. Members of the
account's project can read it, so nothing in it is a secret but signed URLs that end. It trusts nothing but the SHA-256
in it. A machine on which the program cannot be had within one permit's time switches itself off: that is all that it
can do about its bill without a key. Where not even that ends the bill, it stays on and goes on trying.
"""

from __future__ import annotations

from shlex import quote

MAX_USER_DATA_CHARS = 4_096

_SHELL = """\
#!/bin/sh
r=${AUTOPILOT_ROOT:-}
umask 077
mkdir -p "$r/run/autopilot" "$r/var/lib/autopilot-host"
has() { python3 -c 'import sys;sys.exit(sys.version_info<(3,8))' 2>/dev/null; }
has || { apt-get -q update; DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qy install python3; } </dev/null
off() { [ "$AUTOPILOT_STAYS" ] || poweroff; }
has || { echo 'autopilot: no Python 3.8 or newer, and none could be installed' >&2; off; exit 1; }
exec python3 -c LOADER "$r/var/lib/autopilot-host/host.pyz" ARGUMENTS
"""

_LOADER = """\
import hashlib,os,subprocess,sys,time
from urllib.request import urlopen
path,want,url,orders=sys.argv[1:]
def fits(b):return hashlib.sha256(b).hexdigest()==want
def kept():
 try:return open(path,"rb").read()
 except OSError:return b""
speed=float(os.environ.get("AUTOPILOT_CLOCK_SPEED")or 1)
end=time.monotonic()+900/speed
wait=2
while not fits(kept()):
 try:
  if time.monotonic()>end and not os.environ.get("AUTOPILOT_STAYS"):
   print("autopilot: no host program in time; switching off",flush=True)
   subprocess.call(["poweroff"])
  else:
   b=urlopen(url,timeout=20).read(1<<20)
   if not fits(b):raise ValueError("host program refused: wrong SHA-256")
   with open(path+".new","wb")as f:f.write(b)
   os.replace(path+".new",path)
   continue
 except Exception as x:print("autopilot:",x,flush=True)
 time.sleep(max(wait/speed,.25))
 wait=min(wait*2,60)
os.execv(sys.executable,[sys.executable,path,"install",orders])
"""


def user_data(host_url: str, host_sha256: str, orders_url: str, speed: float = 1, *, stays: bool = False) -> str:
    """POSIX sh. ``speed``: the daemon's clock, market seconds per real second. ``stays``: it never switches itself off.

    Raises ``ValueError`` when the URLs make it too long.
    """
    arguments = " ".join(map(quote, (host_sha256, host_url, orders_url)))
    shebang, _, body = _SHELL.partition("\n")
    head, _, rest = body.partition("LOADER")
    middle, _, tail = rest.partition("ARGUMENTS")
    exports = "" if speed == 1 else f"export AUTOPILOT_CLOCK_SPEED={speed:g}\n"
    exports += "export AUTOPILOT_STAYS=1\n" if stays else ""
    text = f"{shebang}\n{exports}{head}{quote(_LOADER)}{middle}{arguments}{tail}"
    if len(text) > MAX_USER_DATA_CHARS:
        raise ValueError(f"the user data has {len(text)} characters; it is to have {MAX_USER_DATA_CHARS} at most")
    return text
