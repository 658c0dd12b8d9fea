import numpy as np
from scipy import stats
from xmr_study import decision as D
from xmr_core.evaluation.stats import holm
rng=np.random.default_rng(3)
def study(nlab,claims,W,S,sds,trials=3000,tag='',dup=False):
    """claims: list of lists of (a,b) pairs, labels with own seed noise; per-label sd; shares control"""
    pairs=[p for c in claims for p in c]; f=W*(S-1); fam=0; single=0; nt=0
    for _ in range(trials):
        sd=rng.choice(sds,nlab)/np.sqrt(2)
        x=rng.normal(0,1,(nlab,W,S))*sd[:,None,None]
        d=np.array([x[a]-x[b] for a,b in pairs])
        s=d.var(2,ddof=1).mean(1); c0,l=D.prior(s,np.full(len(s),f)); l=min(l,D.MOST_PRIOR)
        err=np.sqrt((l*c0+f*s)/(l+f)/(W*S)); m=d.mean((1,2))
        est=[D.Estimate(*t,l+f) for t in zip(m,err)]
        i=0; P=[]
        for c in claims: P.append(D.claim_p(est[i:i+len(c)])[:2]); i+=len(c)
        P=np.array(P); any_=False
        for k in (0,1):
            any_|=(holm(P[:,k])<=D.LEVEL).any()
        fam+=any_; single+=(P[:,0]<=D.LEVEL).sum(); nt+=len(P)
    print(f'{tag:50s} W{W}S{S} family {fam/trials:.4f}  per-claim held {single/nt:.4f} (nominal .05/.025)')
sds=[6.5,9,12,18]; wide=[1,3,10,30]
for W in (4,2):
    for nm,sd in (('sd',sds),('wide',wide),('equal',[10.])):
        study(9,[[(0,i)] for i in range(1,9)],W,3,sd,1500,nm+' shared control 8')
        study(16,[[(2*i,2*i+1)] for i in range(8)],W,3,sd,1500,nm+' indep 8')
    study(2,[[(0,1)],[(0,1)]],W,3,sds,6000,'same comparison twice (kind of 2 copies)')
    study(2,[[(0,1)],[(1,0)]],W,3,sds,6000,'same pair both ways')
    study(4,[[(0,1)],[(2,3)]],W,3,sds,6000,'2 indep comparisons')
    study(4,[[(0,1)],[(2,3)]],W,3,wide,6000,'2 indep, wide')
    study(3,[[(0,1)],[(0,2)]],W,3,[10.],6000,'2 shared control equal var')
    study(2,[[(0,1)]],W,3,sds,6000,'1 comparison')
