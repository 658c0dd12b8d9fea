import numpy as np, pandas as pd, warnings
from scipy import stats, special, optimize
warnings.simplefilter('ignore')
from xmr_study import decision as D
from xmr_study.claims import CLAIMS
from xmr_study.claims.own import CAPACITY
from xmr_study.claims.claim import Claim, RSUM
# independent limma
def limma(s,f):
    s=np.array(s,float); f=np.array(f,float); ok=(s>0)&(f>0); s=s[ok]; f=f[ok]
    z=np.log(s); e=z-special.digamma(f/2)+np.log(f/2); m=e.mean()
    v=((e-m)**2).sum()/(len(e)-1)-special.polygamma(1,f/2).mean()
    if v<=0: return np.exp(m),np.inf
    x=optimize.brentq(lambda y: special.polygamma(1,y)-v,1e-6,1e7); d=2*x
    return np.exp(m+special.digamma(x)-np.log(x)),d
rng=np.random.default_rng(1)
worst=0
for _ in range(300):
    n=rng.integers(2,15); f=rng.choice([4,8],n); s=rng.chisquare(f)/f*rng.choice([1,4,30],n)
    a=D.prior(s,f); b=limma(s,f)
    if np.isinf(b[1]): assert np.isinf(a[1]); worst=max(worst,abs(a[0]/b[0]-1))
    elif b[1]<1e5: worst=max(worst,abs(a[0]/b[0]-1),abs(a[1]/b[1]-1))
print('prior max rel dev',worst)
# ragged moderated
def brute(diffs):
    own=[]
    for d in diffs:
        ss=0;f=0
        for w in set(k[0] for k in d): 
            x=np.array([v for k,v in d.items() if k[0]==w]); ss+=((x-x.mean())**2).sum(); f+=len(x)-1
        own.append((ss/f,f))
    s0,d0=limma(*zip(*own)); d0=min(d0,20); out=[]
    for d,(s,f) in zip(diffs,own):
        ws=sorted(set(k[0] for k in d)); xs=[np.array([v for k,v in d.items() if k[0]==w]) for w in ws]
        st=(d0*s0+f*s)/(d0+f); out.append((np.mean([x.mean() for x in xs]),np.sqrt(st*sum(1/len(x) for x in xs))/len(ws),d0+f))
    return out
diffs=[]
for i in range(5):
    d={(w,s):rng.normal(3,1+i*4) for w in (1,2,3,4) for s in range(rng.integers(1,4))}; d[(1,0)]=1.;d[(1,1)]=9.
    diffs.append(d)
comps=[D.Comparison('',pd.Series(d).rename_axis(['world','seed'])) for d in diffs]
for a,b in zip(D.moderated(comps),brute(diffs)): assert np.allclose(a,b),(a,b)
print('moderated agrees on ragged')
# families
print({}.__class__( (f,len(g)) for f,g in pd.Series([c.family or c.source.split(",")[0] for c in [*CLAIMS,*CAPACITY]]).groupby(lambda i:[c.family or c.source.split(",")[0] for c in [*CLAIMS,*CAPACITY]][i])))
print(D.power([0,3,5,10,20],4,3,[6.5,9,12,18],8,trials=400))
print(D.power([0,10,20],2,3,[6.5,9,12,18],8,trials=400))
