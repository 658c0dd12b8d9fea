import pandas as pd, torch
torch.set_num_threads(1)
from xmr_study import protocol as P, records
from xmr_study.protocol import *
rows=records.read()
js=P.jobs(rows,assumed=True)
print(len(js), len({j.key for j in js}))
from collections import Counter
print(Counter(j.part for j in js))
seen={}
from dataclasses import replace, asdict
from xmr_core.methods.registry import full_options
import json
def sig(c):
    d=asdict(c); d['options']=full_options(c.method,c.form,dict(c.options)); return json.dumps(d,sort_keys=True,default=str)
for j in js:
    seen.setdefault(sig(j.config),set()).add(j.key)
for s,k in seen.items():
    if len(k)>1: print('same run, keys',k)
keys={}
for j in js: keys.setdefault(j.key,set()).add(sig(j.config))
for k,s in keys.items():
    if len(s)>1: print('same key, configs',k)
# rates
for label in light():
    print(label,{ (e,r):validated(rows,label,e,r) for e in (72,144) for r in (1e-3,2e-3,4e-3)})
print(P.length(rows))
c=in_common_form("DivE"); print(c)
c=in_common_form("VSE+2AD"); print(c.options)
c=in_common_form("VSE∞, 16 × wider"); print(c.options)
j=[j for j in js if j.part=='ambiguity'][:8]
for x in j: print(x.label,x.config.options,x.config.positives,x.config.data.ambiguity,x.config.train.lr,x.batch)
print(records.read(records.FOLDER).dtypes[['lr','ambiguity','parameters','world','seed','epochs']])
