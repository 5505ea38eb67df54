"""The text that a market runs at every start of a rented machine: it fetches the pinned agent and becomes it.

It finds a directory that it may write to and a Python, or has the image's package manager bring one, in 75 s at most.
What it has to say begins with ``START_WORDS``: the market's log is where the daemon finds that.

It stays within vast.ai's 4,096 characters (RunPod names no limit), trusts nothing but the SHA-256 in it, and is a
dead-man's switch of its own: a machine on which the agent cannot be had within one permit's time destroys itself.
"""

from __future__ import annotations

import base64
import zlib
from shlex import quote

MAX_ONSTART_CHARS = 4_096

_SHELL = """\
r=${AUTOPILOT_ROOT:-}
for w in "${AUTOPILOT_STATE:-/var/lib/autopilot}" "${HOME#"$r"}/.autopilot" /tmp/.autopilot;do
d=$r$w
mkdir -p "$d" 2>/dev/null&&[ -w "$d" ]&&break
d=
done
[ "$d" ]||{ echo "autopilot: cannot write $r$w">&2;exit 1;}
export AUTOPILOT_STATE="$w"
py(){
for p in python3 python "$r"/usr/bin/python3.* "$r"/usr/local/bin/python3* "$r"/opt/*/bin/python \\
"$r"/venv/*/bin/python;do
"$p" -c 'import sys;sys.exit(sys.version_info<(3,8))' 2>/dev/null&&return
done
return 1
}
i='install -yq python3'
py||for m in "apt-get update -q;apt-get $i" 'apk add python3' "dnf $i.11" "microdnf $i.11" "yum $i.11";do
command -v ${m%% *}>&2&&timeout 75 sh -c "$m"</dev/null>&2&&py&&break
false
done||{ echo 'autopilot: no Python 3.8 or newer in this image, and none to be had'>&2;exit 1;}
exec "$p" -c LOADER "$d/agent.pyz" ARGUMENTS
"""

_LOADER = """\
import hashlib,json,os,sys,time
from urllib.request import Request,urlopen
path,want,url,orders=sys.argv[1:]
env=os.environ
def fits(b):return hashlib.sha256(b).hexdigest()==want
def kept():
 try:return open(path,"rb").read()
 except OSError:return b""
speed=float(env.get("AUTOPILOT_CLOCK_SPEED")or 1)
end=time.monotonic()+900/speed
wait=2
tries=0
def ask(base,to,verb,body,key):
 h={"Authorization":"Bearer "+env[key],"Content-Type":"application/json","User-Agent":"autopilot"}
 r=Request((env.get("AUTOPILOT_PROVIDER_URL")or base)+to,body,h,method=verb)
 print("autopilot: no agent in time; destroying this machine:",urlopen(r,timeout=20).status,flush=True)
def die():
 pod,base,key=env.get("RUNPOD_POD_ID"),"https://api.runpod.io","RUNPOD_API_KEY"
 q={"query":"mutation{podTerminate(input:{podId:%s})}"%json.dumps(pod)}
 if not pod:ask("https://console.vast.ai","/api/v0/instances/"+env["CONTAINER_ID"]+"/","DELETE",b"{}","CONTAINER_API_KEY")
 elif tries%2:ask(base,"/v2/pods/"+pod,"DELETE",None,key)
 else:ask(base,"/graphql","POST",json.dumps(q).encode(),key)
while not fits(kept()):
 try:
  if time.monotonic()>end:
   tries+=1
   die()
  else:
   b=urlopen(url,timeout=20).read(1<<20)
   if not fits(b):raise ValueError("agent refused: wrong SHA-256")
   with open(path+".new","wb")as f:f.write(b)
   os.replace(path+".new",path)
   continue
 except Exception as x:print("autopilot:",x,flush=True)
 time.sleep(max(wait/speed,.25))
 wait=min(wait*2,60)
os.execv(sys.executable,[sys.executable,path,orders])
"""


def _pack(code: str) -> str:
    """The same program, small: what it holds back is room for long signed URLs."""
    packed = base64.b85encode(zlib.compress(code.encode(), 9)).decode()
    return f'import base64,zlib;exec(zlib.decompress(base64.b85decode("{packed}")))'


def onstart(agent_url: str, agent_sha256: str, orders_url: str, speed: float = 1) -> str:
    """POSIX sh for the market's onstart field. ``speed``: the daemon's clock, market seconds per real second.

    Raises ``ValueError`` when the URLs make it too long for one.
    """
    arguments = " ".join(map(quote, (agent_sha256, agent_url, orders_url)))
    head, _, rest = _SHELL.partition("LOADER")
    middle, _, tail = rest.partition("ARGUMENTS")
    clock = "" if speed == 1 else f"export AUTOPILOT_CLOCK_SPEED={speed:g}\n"
    text = clock + head + quote(_pack(_LOADER)) + middle + arguments + tail
    if len(text) > MAX_ONSTART_CHARS:
        raise ValueError(f"the onstart text has {len(text)} characters; the market takes {MAX_ONSTART_CHARS}")
    return text
