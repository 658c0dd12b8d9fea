import numpy as np, pandas as pd, warnings
warnings.simplefilter('ignore')
from xmr_study import decision as D, records as R
from xmr_study.protocol import *
from xmr_study.claims import CLAIMS
from xmr_study.claims.own import CAPACITY as CC
rng=np.random.default_rng(0)
js=jobs(R.read(),assumed=True)
cols={R.column(c.measure.relevance,c.measure.direction,c.measure.metric,c.measure.k) for c in [*CLAIMS,*CC]}
rows=[]
for j in {j.key:j for j in js}.values():
    l=dict(zip(KEY,j.key)); l|={'part':j.part,'processor':'A','validation':500.}
    for c in cols: l[c]=5+rng.normal()*.1
    rows.append(l)
rows=pd.DataFrame(rows)
v=D.verdicts(rows,[*CLAIMS,*CC])
can=canonical()
have=set(rows.label)
print(v.verdict.value_counts())
miss=[]
for c,verd in zip([*CLAIMS,*CC],v.verdict):
    labels={*c.above,*c.below}
    if verd=='not measured' and {can.get(l,l) for l in labels}<=have:
        miss.append((c.id,labels))
print(len(miss)); 
for m in miss: print(m)
print(v[v.verdict=='no verdict yet'][['claim','runs']])
print(v[v.runs>0].groupby('runs').size())
ms={}
for c in [*CLAIMS,*CC]:
    k=D.compare(rows[rows.world.isin(WORLDS)],c)
    if k: ms.setdefault(c.measure.name,[]).append((c.id,len(k),len(k[0].differences)))
for k,x in ms.items(): print(k,x)
for c in [*CLAIMS,*CC]:
    if {*c.above,*c.below}&set(CROSSED): print('crossed',c.id)
