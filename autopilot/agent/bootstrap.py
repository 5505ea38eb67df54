"""The text that a market runs at every start of a rented machine: it fetches the pinned agent and becomes it.

It stays within vast.ai's 4,096 characters (RunPod names no limit), trusts nothing but the SHA-256 in it, and is a
dead-man's switch of its own: a machine on which the agent cannot be had within one permit's time destroys itself.
"""

from __future__ import annotations

from shlex import quote

MAX_ONSTART_CHARS = 4_096

_SHELL = """\
d=${AUTOPILOT_ROOT:-}${AUTOPILOT_STATE:-/var/lib/autopilot}
mkdir -p "$d" || { echo "autopilot: cannot write $d" >&2; exit 1; }
for p in python3 /opt/conda/bin/python /venv/main/bin/python; do
"$p" -c 'import sys;sys.exit(sys.version_info<(3,8))' 2>/dev/null && exec "$p" -c LOADER "$d/agent.pyz" ARGUMENTS
done
echo 'autopilot: no Python 3.8 or newer in this image (python3, /opt/conda/bin/python, /venv/main/bin/python)' >&2
exit 1
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


def onstart(agent_url: str, agent_sha256: str, orders_url: str, speed: float = 1) -> str:
    """POSIX sh for the market's onstart field. ``speed``: the daemon's clock, market seconds per real second.

    Raises ``ValueError`` when the URLs make it too long for one.
    """
    arguments = " ".join(map(quote, (agent_sha256, agent_url, orders_url)))
    head, _, rest = _SHELL.partition("LOADER")
    middle, _, tail = rest.partition("ARGUMENTS")
    clock = "" if speed == 1 else f"export AUTOPILOT_CLOCK_SPEED={speed:g}\n"
    text = clock + head + quote(_LOADER) + middle + arguments + tail
    if len(text) > MAX_ONSTART_CHARS:
        raise ValueError(f"the onstart text has {len(text)} characters; the market takes {MAX_ONSTART_CHARS}")
    return text
